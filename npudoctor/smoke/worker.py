"""One rank of a smoke run. Run by the Python that trains; the standard library, torch and torch_npu, Python 3.7 syntax.

Its input is the file named by NPUDOCTOR_SMOKE; its events go to the socket named there, one JSON object per line, so
that output of libraries never mixes in. With the argument `spawn` it starts the ranks by mp.spawn.
"""

import faulthandler
import json
import math
import os
import signal
import socket
import sys
import threading
import time

PARENT_DEATH = 1  # PR_SET_PDEATHSIG
REDUCED = ("all_reduce", "all_gather", "reduce_scatter", "broadcast")
EXACT = {"int8": 127, "uint8": 255, "bf16": 256, "fp16": 2048}


class Link(object):
    """The connection to npudoctor. If it breaks, this rank ends."""

    def __init__(self, path, rank):
        self.rank, self.lock, self.released, self.number = rank, threading.Lock(), threading.Event(), 0
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(path)
        watcher = threading.Thread(target=self.listen)
        watcher.daemon = True
        watcher.start()

    def listen(self):
        try:
            while True:
                word = self.socket.recv(64)
                if not word:
                    os._exit(113)
                self.released.set()
        except OSError:
            os._exit(113)

    def say(self, kind, **more):
        more.update(k=kind, rank=self.rank, t=time.time())
        with self.lock:
            self.socket.sendall((json.dumps(more) + "\n").encode("utf-8"))

    def at(self, what):
        """Announce the next operation. All ranks count the same operations: the lowest number is waited for."""
        self.number += 1
        self.say("at", n=self.number, what=what)


class Fault(object):
    """A fault injected by a test: NPUDOCTOR_SMOKE_FAULT=rank:1,kind:exit,stage:training."""

    def __init__(self, text, rank):
        told = dict(part.split(":", 1) for part in text.split(",") if ":" in part)
        self.kind = told.get("kind") if told.get("rank", "-1") == str(rank) else None
        self.stage, self.seconds = told.get("stage", ""), float(told.get("s", "0.05"))

    def __call__(self, kind, stage):
        return self.kind == kind and self.stage == stage

    def entering(self, stage):
        if self.stage != stage or self.kind is None:
            return
        if self.kind == "exit":
            os._exit(3)
        if self.kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.kind == "segv":
            os.kill(os.getpid(), signal.SIGSEGV)
        if self.kind == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        if self.kind == "raise":
            raise RuntimeError("injected: this rank raises in " + stage)
        if self.kind == "import-error":
            raise ImportError("libhccl.so: cannot open shared object file: No such file or directory")
        if self.kind in ("hang", "import-hang"):
            self.hang()

    def hang(self):
        while True:
            time.sleep(3600)


class Rank(object):
    """This rank and the state of its stages."""

    def __init__(self, told, rank, local_rank):
        self.told, self.rank, self.local_rank, self.world = told, rank, local_rank, told["world_size"]
        self.link = Link(told["socket"], told["first_rank"] + local_rank)  # its number in this node's plan
        self.losses = []
        self.fault = Fault(os.environ.get("NPUDOCTOR_SMOKE_FAULT", ""), rank)
        self.large = told["size"] == "large"
        self.batch, self.steps = (64 if self.large else 32), told["steps"]
        self.model = self.data = self.step_s = None
        self.grouped = told["backend"] != "none"

    # Stages

    def launch(self):
        cpus = self.told["cpus"].get(str(self.rank))
        if cpus and hasattr(os, "sched_setaffinity"):
            try:
                os.sched_setaffinity(0, cpus)
            except OSError as problem:
                self.link.say("measured", name="unbound", value=str(problem))
        global torch, dist
        import torch
        import torch.distributed as dist

        if self.told["strategy"] == "fsdp" and torch.__version__.startswith("1."):
            raise RuntimeError("fsdp requires torch 2.0 or newer; found " + torch.__version__)
        if self.told["device"] == "npu":
            import torch_npu

            count = torch.npu.device_count()
            if not torch.npu.is_available() or count <= self.local_rank:
                raise RuntimeError("torch_npu sees %d devices; this rank requires device %d" % (count, self.local_rank))
            torch.npu.set_device(self.local_rank)
            self.device, name = torch.device("npu", self.local_rank), torch.npu.get_device_name(self.local_rank)
            free, total = torch.npu.mem_get_info(self.local_rank)
            self.free = min(free, self.told["memory_bytes"])
            if total > self.told["memory_bytes"] and hasattr(torch.npu, "set_per_process_memory_fraction"):
                torch.npu.set_per_process_memory_fraction(float(self.told["memory_bytes"]) / total, self.local_rank)
            self.link.say("measured", name="device", value=name)
            self.link.say("measured", name="torch_npu", value=torch_npu.__version__)
        else:
            self.device, self.free = torch.device("cpu"), self.told["memory_bytes"]
        self.link.say("measured", name="torch", value=torch.__version__)
        self.dtypes = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16, "int8": torch.int8,
                       "int16": torch.int16, "int32": torch.int32, "int64": torch.int64, "uint8": torch.uint8,
                       "fp64": torch.float64}  # fmt: skip

    def rendezvous(self):
        from datetime import timedelta

        self.link.at("init_process_group")
        limit = timedelta(seconds=self.told["collective_timeout_s"])
        dist.init_process_group(self.told["backend"], timeout=limit, rank=self.rank, world_size=self.world)
        if dist.get_world_size() != self.world:
            raise RuntimeError("process group has %d ranks; expected %d" % (dist.get_world_size(), self.world))
        self.link.at("the first all_reduce")
        ones = torch.ones(1, device=self.device)
        dist.all_reduce(ones)
        self.synchronize()  # torch_npu queues the call; a failure must be reported in this stage
        if ones.item() != self.world:
            self.link.say("collective", op="first all_reduce", dtype="fp32", ok=False, expected=str(float(self.world)),
                          actual=str(ones.item()), unchanged=ones.item() == 1 and self.world > 1)  # fmt: skip

    def part(self, dtype, rank, length=1024):
        """The input of a rank to a collective: small integers whose sum is exact in this type."""
        top, worlds = EXACT.get(dtype, 1 << 20), self.world
        spread = next((m for m in (64, 16, 8, 4, 2) if 3 * sum(r % m + 1 for r in range(worlds)) <= top), 1)
        pattern = torch.arange(length) % (3 if 3 * worlds <= top else 1) + 1
        return (pattern * (rank % spread + 1)).to(self.dtypes[dtype])

    def collectives(self):
        self.link.at("arithmetic")
        four = (torch.full((8,), 3.0, device=self.device) + 1.0).cpu()
        if not torch.equal(four, torch.full((8,), 4.0)):
            self.link.say(
                "collective", op="arithmetic", dtype="fp32", ok=False, expected="4.0", actual=str(four[0].item())
            )
        if self.told["forward"]:
            self.compare_forward()
        for dtype in self.told["dtypes"]:
            for op in REDUCED:
                self.link.at(op + " " + dtype)
                parts = [self.part(dtype, rank) for rank in range(self.world)]
                mine = parts[self.rank].clone().to(self.device)
                try:
                    got, want = getattr(self, "do_" + op)(mine, parts)
                except (RuntimeError, NotImplementedError, TypeError) as problem:
                    text = str(problem)
                    lacking = "nsupported" in text or "not support" in text or "nvalid scalar" in text
                    if self.told["backend"] == "gloo" and lacking:
                        self.link.say("collective", op=op, dtype=dtype, ok=None, actual=text[:200])
                        continue
                    raise
                self.compare(op, dtype, got, want, parts[self.rank])
        self.link.at("barrier")
        dist.barrier()

    def compare_forward(self):
        """Compare the forward pass with the CPU's, on inference chips."""
        self.link.at("forward")
        images = torch.randn(self.batch, 784, generator=torch.Generator().manual_seed(784))
        with torch.no_grad():
            got = self.make_model(self.device)(images.to(self.device)).cpu()
            want = self.make_model(torch.device("cpu"))(images)
        off = float((got - want).abs().max() / want.abs().max())
        self.link.say("collective", op="forward", dtype="fp32", ok=off < 0.02, expected="the CPU's values within 2 %",
                      actual="%.2g %% off" % (100 * off))  # fmt: skip

    def do_all_reduce(self, mine, parts):
        if self.fault("wrong-part", "collectives"):
            mine += 1
        if self.fault("hang-in", "collectives"):
            self.fault.hang()
        dist.all_reduce(mine)
        if self.fault("wrong-sum", "collectives"):
            mine[7] += 1
        return [mine], [sum(part.to(torch.int64) for part in parts).to(mine.dtype)]

    def do_all_gather(self, mine, parts):
        if self.fault("wrong-part", "collectives"):
            mine += 1
        got = [torch.zeros_like(mine) for _ in parts]
        dist.all_gather(got, mine)
        return got, parts

    def do_reduce_scatter(self, mine, parts):
        got = torch.zeros_like(mine)
        shares = [part.to(self.device) for part in [self.shift(parts[self.rank], to) for to in range(self.world)]]
        dist.reduce_scatter(got, shares)
        whole = sum(self.shift(part, self.rank).to(torch.int64) for part in parts)
        return [got], [whole.to(got.dtype)]

    def shift(self, part, to):
        return torch.roll(part, to)

    def do_broadcast(self, mine, parts):
        dist.broadcast(mine, self.world - 1)
        return [mine], [parts[-1]]

    def compare(self, op, dtype, got, want, before):
        bad = [slot for slot, (one, other) in enumerate(zip(got, want)) if not torch.equal(one.cpu(), other)]
        if not bad:
            self.link.say("collective", op=op, dtype=dtype, ok=True)
            return
        one, other = got[bad[0]].cpu(), want[bad[0]]
        where = int((one != other).nonzero()[0])
        same = (torch.equal(one, before) or not one.any()) and not torch.equal(before, other)
        self.link.say("collective", op=op, dtype=dtype, ok=False, unchanged=bool(same),
                      slots=bad if len(got) > 1 else [], actual="%s at [%d]" % (one[where].item(), where),
                      expected=str(other[where].item()))  # fmt: skip

    def synchronize(self):
        if self.device.type == "npu":
            torch.npu.synchronize()

    def bandwidth(self):
        name = "fp16" if self.device.type == "npu" else "fp32"
        dtype, began, limit = self.dtypes[name], time.monotonic(), self.told["bandwidth_s"]
        for size in self.told["sizes"]:
            if size > self.free // 4:
                break
            self.link.at("all_reduce of %d bytes" % size)
            buffer = torch.zeros(max(1, size // (2 if name == "fp16" else 4)), dtype=dtype, device=self.device)
            for _ in range(self.told["warm_ups"]):
                start = time.perf_counter()
                dist.all_reduce(buffer)
                self.synchronize()
            warm = time.perf_counter() - start
            left = limit - (time.monotonic() - began)
            agreed = torch.tensor([warm, -left], dtype=torch.float32, device=self.device)
            dist.all_reduce(agreed, op=dist.ReduceOp.MAX)
            warm, left = agreed[0].item(), -agreed[1].item()
            calls = int(min(self.told["calls"], max(left, 0) / max(warm, 1e-7)))
            if calls < 3:
                break
            times = []
            for _ in range(calls):
                start = time.perf_counter()
                dist.all_reduce(buffer)
                self.synchronize()
                times.append(time.perf_counter() - start)
            if self.rank == 0:
                self.link.say("bandwidth", size=size, dtype=name, calls=calls, s=sorted(times)[calls // 2])

    # Training

    def make_model(self, device):
        torch.manual_seed(20250718)
        wide = [784, 8192, 8192, 10] if self.large else [784, 128, 10]
        layers = []
        for one, other in zip(wide, wide[1:]):  # noqa: RUF007 - Python 3.7
            layers += [torch.nn.Linear(one, other), torch.nn.ReLU()]
        return torch.nn.Sequential(*layers[:-1]).to(device)

    def make_data(self):
        generator = torch.Generator()
        generator.manual_seed(784)
        count = self.batch * self.world * min(self.steps, 10)
        labels = torch.randint(0, 10, (count,), generator=generator)
        centres = torch.randn(10, 784, generator=generator)
        images = centres[labels] + 2.0 * torch.randn(count, 784, generator=generator)
        return torch.utils.data.TensorDataset(images, labels, torch.arange(count))

    def batches(self, rank):
        """The batches of one rank, epoch after epoch, as many as there are steps."""
        from torch.utils.data.distributed import DistributedSampler

        sampler = DistributedSampler(self.data, num_replicas=self.world, rank=rank, seed=1)
        loader, epoch, given = torch.utils.data.DataLoader(self.data, self.batch, sampler=sampler), 0, 0
        while True:
            sampler.set_epoch(epoch)
            for batch in loader:
                if given == self.steps:
                    return
                given += 1
                yield batch
            epoch += 1

    def autocast(self):
        if self.told["dtype"] == "fp32":
            return torch.autocast(self.device.type, enabled=False)
        return torch.autocast(self.device.type, dtype=self.dtypes[self.told["dtype"]])

    def wrap(self, model):
        if not self.grouped:
            return model
        if self.told["strategy"] == "fsdp":
            from torch.distributed.fsdp import FullyShardedDataParallel

            return FullyShardedDataParallel(model, use_orig_params=True, device_id=self.device)
        ids = [self.local_rank] if self.device.type == "npu" else None
        return torch.nn.parallel.DistributedDataParallel(model, device_ids=ids, gradient_as_bucket_view=True)

    def sharded_by_deepspeed(self, model, optimizer):
        os.environ.setdefault("DS_ACCELERATOR", self.device.type)
        import deepspeed

        if self.device.type == "cpu":
            sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None  # for speed; it compiles for minutes
        config = {"train_micro_batch_size_per_gpu": self.batch, "zero_allow_untested_optimizer": True,
                  "gradient_clipping": 0.0, "zero_optimization": {"stage": int(self.told["strategy"][-1])}}  # fmt: skip
        return deepspeed.initialize(model=model, optimizer=optimizer, config=config)[0]

    def training(self):
        self.data = self.make_data()
        self.link.at("DistributedDataParallel" if self.told["strategy"] == "ddp" else self.told["strategy"])
        engine, self.model = None, self.make_model(self.device)
        if self.told["strategy"] in ("ddp", "fsdp"):
            self.model = self.wrap(self.model)
        optimizer = torch.optim.SGD(self.model.parameters(), 0.02 if self.large else 0.1)
        if self.told["strategy"] in ("zero2", "zero3"):
            engine = self.model = self.sharded_by_deepspeed(self.model, optimizer)
        seen, times = [], []
        for step, (images, labels, numbers) in enumerate(self.batches(self.rank)):
            self.link.at("step %d" % step)
            start = time.perf_counter()
            if step == self.steps // 2:
                self.fault.entering("step")
            if self.fault("hang-in", "training") and step == 2:
                self.fault.hang()
            if self.fault("nan", "training") and step == 2:
                images = images * float("nan")
            if self.fault("slow", "training"):
                time.sleep(self.fault.seconds)
            with self.autocast():
                loss = torch.nn.functional.cross_entropy(self.model(images.to(self.device)), labels.to(self.device))
            if engine is not None:
                engine.backward(loss)
                engine.step()
            else:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            value = loss.item()
            seen += numbers.tolist() if step < min(self.steps, 10) else []
            spent = time.perf_counter() - start
            times.append(spent)
            self.losses.append(value)
            self.link.say("loss", step=step, loss=value if math.isfinite(value) else None, s=spent)
        self.step_s = sorted(times)[len(times) // 2]
        self.link.say("measured", name="samples", value=sorted(seen))
        if self.device.type == "npu":
            self.link.say("measured", name="memory_mb", value=torch.npu.max_memory_allocated() / 1048576.0)

    def in_sync(self):
        import ctypes
        import hashlib

        digest, gathered = hashlib.sha256(), None
        if self.told["strategy"] == "fsdp":
            from torch.distributed.fsdp import FullyShardedDataParallel

            gathered = FullyShardedDataParallel.summon_full_params(self.model)
        if self.told["strategy"] == "zero3":
            import deepspeed

            gathered = deepspeed.zero.GatheredParameters(list(self.model.parameters()))
        if gathered is not None:
            self.link.at("gathering the parameters")
            gathered.__enter__()
        if self.fault("out-of-sync", "in-sync"):
            with torch.no_grad():
                next(iter(self.model.parameters())).flatten()[3:4].add_(1e-6)
        for parameter in self.model.parameters():
            held = parameter.detach().float().cpu().contiguous()
            size = held.numel() * held.element_size()
            digest.update((ctypes.c_char * size).from_address(held.data_ptr()))
        if gathered is not None:
            gathered.__exit__(None, None, None)
        self.link.say("measured", name="digest", value=digest.hexdigest())

    def parity(self):
        """Rank 0 repeats the training on the CPU with the batches of all ranks; the others wait."""
        if self.told["nnodes"] > 1:
            self.link.at("mean of the losses of all nodes")
            mean = torch.tensor(self.losses, device=self.device) / self.world
            dist.all_reduce(mean)
            self.link.say("measured", name="mean_losses", value=mean.tolist())
        if self.rank == 0:
            model, cpu = self.make_model(torch.device("cpu")), []
            optimizer = torch.optim.SGD(model.parameters(), 0.02 if self.large else 0.1)
            threads = torch.get_num_threads()
            torch.set_num_threads(max(threads, self.told["reference_threads"]))
            shards = [self.batches(rank) for rank in range(self.world)]
            for _ in range(min(self.steps, self.told["reference_steps"])):
                parts = [next(shard) for shard in shards]
                images, labels = (torch.cat([part[column] for part in parts]) for column in (0, 1))
                loss = torch.nn.functional.cross_entropy(model(images), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                cpu.append(loss.item())
            torch.set_num_threads(threads)
            self.link.say("measured", name="reference", value=cpu)
        if self.grouped:
            self.link.at("barrier after the reference")
            dist.barrier()

    def timed_steps(self, model, count):
        optimizer = torch.optim.SGD(model.parameters(), 1e-4)
        images, labels, _ = next(self.batches(self.rank))
        images, labels, times = images.to(self.device), labels.to(self.device), []
        for _ in range(2 + count):
            start = time.perf_counter()
            if self.fault("slow", "scaling") or self.fault("slow", "training"):
                time.sleep(self.fault.seconds)
            with self.autocast():
                loss = torch.nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            self.synchronize()
            times.append(time.perf_counter() - start)
            if times[-1] > 0.5:
                self.link.say("pulse")
        return sorted(times[2:])[count // 2]

    def scaling(self):
        self.link.at("how long a step takes")
        slowest = torch.tensor([self.step_s], device=self.device)
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
        count = int(max(3, min(20, self.told["scaling_s"] / max(slowest.item(), 1e-6) - 2)))
        self.link.at("steps of all ranks, each by itself")
        alone = self.make_model(self.device)
        local = self.timed_steps(alone, count)
        if count >= 20:  # fewer are too few to judge a rank slow
            self.link.say("measured", name="local_step_s", value=local)
        self.link.at("steps of rank 0 alone")
        dist.barrier()
        if self.rank == 0:
            self.link.say("measured", name="alone_s", value=self.timed_steps(alone, count))
        self.link.at("steps of all ranks together")
        dist.barrier()
        self.link.say("measured", name="together_s", value=self.timed_steps(self.model, count))

    def memory_seen(self):
        """Hold the allocated memory until npudoctor has read npu-smi."""
        self.link.say("measured", name="holding", value=True)
        self.link.released.wait()

    def run(self):
        for stage in self.told["stages"]:
            self.link.say("begin", stage=stage)
            self.fault.entering(stage)
            getattr(self, stage.replace("-", "_"))()
            self.link.say("end", stage=stage)
        if self.grouped:
            self.link.at("destroy_process_group")
            dist.destroy_process_group()
        self.link.say("bye")


def main(local_rank=None):
    """Run as the rank given by the launcher's environment variables."""
    with open(os.environ["NPUDOCTOR_SMOKE"], encoding="utf-8") as file:
        told = json.load(file)
    if local_rank is not None:
        os.environ.update(LOCAL_RANK=str(local_rank), RANK=str(told["first_rank"] + local_rank))
    bind_to_parent()
    rank, local_rank = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    logs = open(os.path.join(told["logs"], "rank-%d.log" % rank), "ab", 0)
    os.dup2(logs.fileno(), 1)
    os.dup2(logs.fileno(), 2)
    stacks = open(os.path.join(told["logs"], "rank-%d.stack" % rank), "w", encoding="utf-8")
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, file=stacks, all_threads=True)
    mine = Rank(told, rank, local_rank)
    if mine.fault.kind == "world-size":
        os.environ["WORLD_SIZE"] = str(told["world_size"] + 1)
    mine.link.say("hello", pid=os.getpid(), host=socket.gethostname(), world=os.environ.get("WORLD_SIZE"))
    report_termination(mine.link, stacks)
    try:
        mine.run()
    except BaseException as problem:
        import traceback

        traceback.print_exc()
        cause = problem
        while cause.__cause__ is not None:  # torch wraps the exception of its extension
            cause = cause.__cause__
        text = "".join(traceback.format_exception_only(type(cause), cause)).strip()
        mine.link.say("failed", message=text[-4000:], error=type(cause).__name__, trace=traceback.format_exc()[-4000:])
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def report_termination(link, stacks):
    """Report SIGTERM, with the stack at that moment, and end: a rank that its launcher ends is not the one that failed.

    The C handler of the signal writes to a pipe that a thread reads, even while the main thread is in a library. The
    signal is not blocked, because processes that a library starts would inherit that.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    signal.signal(signal.SIGTERM, lambda *_: None)

    def forget():
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def wait():
        while signal.SIGTERM not in os.read(reading, 64):
            pass
        try:
            faulthandler.dump_traceback(file=stacks, all_threads=True)
            stacks.flush()
            link.say("ended")
        finally:
            os._exit(128 + signal.SIGTERM)

    os.register_at_fork(after_in_child=forget)
    waiter = threading.Thread(target=wait)
    waiter.daemon = True
    waiter.start()


def bind_to_parent():
    """Have the kernel kill this rank with its parent, even if it hangs in a library."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(PARENT_DEATH, signal.SIGKILL, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        pass
    if os.getppid() == 1 and os.environ.get("NPUDOCTOR_SMOKE_PARENT", "1") != "1":
        os._exit(113)


if __name__ == "__main__":
    if sys.argv[1:] == ["spawn"]:
        import torch.multiprocessing

        with open(os.environ["NPUDOCTOR_SMOKE"], encoding="utf-8") as file:
            torch.multiprocessing.spawn(main, nprocs=json.load(file)["local_world_size"])
    elif sys.argv[1:2] == ["launcher"]:
        bind_to_parent()
        os.execvp(sys.argv[2], sys.argv[2:])
    else:
        main()
