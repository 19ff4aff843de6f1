"""What planning, applying and undoing fixes say: how a run ended, and why one is refused."""

from npudoctor.messages import Sentence

# planning

NO_SUCH_FIX = Sentence("unknown fix {id!r}; known are {known}")
NO_CHECK_RUN = Sentence("no check could be run")
CANNOT_BE_PLANNED = Sentence("cannot be planned: {problem}")
NOT_KNOWN = Sentence("{fact} is not known")
ONLY_ROOT = Sentence("only root can apply it")
AS_SHOWN = Sentence("re-checked, all changes are as shown")
NO_CHECK_VERIFIES = Sentence("no check verifies its effect")

# changes for the owner of a file

HANDED_OVER = Sentence("{title}: the change of `npudoctor fix {fix}` for the owner of these files")
NOTHING_TO_HAND_OVER = Sentence("{fix} changes nothing on this node")
NOT_HANDED_OVER = Sentence("only npudoctor itself takes this step: {step}")
NO_DROP_IN = Sentence("this fix writes no file; use --as shell")
LINES_FOR = Sentence("lines for {path}, or for a file in {folder} that is read after it")

# parameters and steps as data

NOT_A_STEP = Sentence("{kind!r} is not a known step; known are {known}")
NOT_JOURNALLED = Sentence("{kind} is not a step that can be journalled: {known}")

# the journal

HOME_UNKNOWN = Sentence("the home folder of {user} is not known")
JOURNAL_NOT_SAFE = Sentence("the journal is not safe in this folder: {problem}")
JOURNAL_NOT_TRUSTED = Sentence("the journal is not trusted: {problem}")
JOURNAL_OF_OWNER = Sentence("only its owner can read the journal in {path}")
JOURNAL_INVALID = Sentence("{path} is not what npudoctor writes: {problem}")
JOURNAL_NOT_A_RECORD = Sentence("{path} is not what npudoctor writes: it is not a JSON object")
JOURNAL_NOT_WRITABLE = Sentence("the journal is not writable: {problem}")
BY_USER = Sentence("{user} (uid {uid})")

OF_ANOTHER_HOST = Sentence("run {run} was made on {host}; undo it there")
LEFT_ON_ANOTHER_HOST = Sentence("run {run} was interrupted on {host}; only `npudoctor fix --recover` there undoes it")
UNDER_WAY = Sentence("{reason}; it is run {run} of {by} on {host}, begun {at}")

# change control

ON_HOLD = Sentence("this node is on hold: {reason}")
FROZEN = Sentence("changes are frozen on this node: {reason}")
WINDOW_CLOSED = Sentence("changes are allowed in the window {window} only")
REASON_REQUIRED = Sentence("this site requires a reason for every change")
ON_NETWORK = Sentence(
    "{paths} on a network file system ({kind} at {place}): the change reaches every node that mounts it"
)
LOGGED = Sentence("{what} {fix}, run {run}, by {by}{origin}: {reason}")
FROM = Sentence(" from {origin}")
NO_REASON = Sentence("no reason given")

# applying

ALREADY_APPLIED = Sentence("already applied; nothing to change")
NODE_CHANGED = Sentence("the node has changed since the preview; preview it again")
IRREVERSIBLE = Sentence("it cannot be undone")
INTERRUPTED = Sentence("it was interrupted")
STILL_THERE = Sentence("the problem is still there: {problem}")
AT_NEXT_BOOT = Sentence("applied; takes effect at the next boot and cannot be verified before")
NOT_VERIFIED = Sentence("applied and not verified: {why}")
APPLIED = Sentence("applied; {checked}")
VERIFIED = Sentence("applied and verified")
NO_LOGIN = Sentence("applied; takes effect at the next login and could not be verified: {problem}")
VERIFIED_AT_LOGIN = Sentence("applied and verified in a fresh login shell; open a new shell to use it")
CHECK_CRASHED = Sentence("{check} crashed: {problem}")
UNDO_FAILED = Sentence("{reason}; undoing it failed: {problem}")

CHECKS_TURNED = Sentence("✔ {checks} now ok; {count} {count:check|checks} run again in {seconds:.1f} s")
CHECKS_RAN = Sentence("{count} {count:check|checks} run again in {seconds:.1f} s; none was failing before")

# how far a problem is

OPEN = Sentence("open")
PREVIEWED = Sentence("previewed; nothing changed yet")
IN_FORCE_UNVERIFIED = Sentence("applied by {fix}; in force now, and no check verifies it")
AFTER_LOGIN = Sentence("fixed by {fix}; in force in new logins")
AFTER_REBOOT = Sentence("fixed by {fix}; in force after a reboot")
IN_FORCE = Sentence("applied by {fix}; in force since the last boot")
IN_FORCE_VERIFIED = Sentence("fixed by {fix}; in force now and verified")
VERIFIED_FOR_LOGIN = Sentence("fixed by {fix}; verified for the next login: open a new shell to use it")

# undoing

NOTHING_TO_UNDO = Sentence("no applied fix left to undo")
UNDONE = Sentence("everything is as it was before")
NO_SUCH_RUN = Sentence("there is no run {run!r}; `npudoctor history` lists them")
RUN_IS = Sentence("{run} is already {status}")
INSTALLATION_RUNS = Sentence("installation {run} runs, or was interrupted; until it ends nothing else is changed")
RUN_IS_HELD = Sentence(
    "{run} is an installation ({status}); nothing undoes it, and only `npudoctor setup` goes on with it"
)
NOTHING_REVERSIBLE = Sentence("none of its steps can be undone")
CHANGED_SINCE = Sentence("it was changed since; npudoctor left it like this:\n{change}")

# recovering

NOTHING_CUT_OFF = Sentence("no interrupted run found")
CUT_OFF_UNDONE = Sentence("{count} interrupted {count:run|runs}, now undone")
CUT_OFF = Sentence("it was interrupted")
