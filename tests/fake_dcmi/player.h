/* What a generated function tells the player of a call. */
#define NONE (-101)

struct out {
    int parameter;          /* its number among the parameters of the function */
    void *at;
    long room;              /* bytes, as the caller says in a parameter of its own; -1 where no parameter says it */
    int is_text, is_struct, is_count;
    unsigned int *exact_size; /* what the caller must have set, for a buffer without a type */
};

struct call {
    const char *name;
    int card, device; /* NONE where the call names none */
    int is_forbidden;
    int ins, outs;
    long in[8];
    struct out out[6];
};

int fake_answer(struct call *call);
