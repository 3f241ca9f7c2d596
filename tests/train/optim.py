# SPDX-License-Identifier: Apache-2.0
"""Writes optim.txt: what PyTorch's optimizers, schedulers, gradient scaler and gradient clipping make of two parameters.

    python optim.py > optim.txt

lamb and novograd are apex's formulas (csrc/multi_tensor_lamb.cu, csrc/multi_tensor_novograd.cu), written out below. Lines of the
output: `init NAME values`, `grad NAME STEP values` hold for all cases; then per case its options, what it starts from, and after
each step `param NAME STEP values`, after the last one `state NAME values`.
"""
import math

import torch

torch.manual_seed(1)
STEPS = 6
SHAPES = {"w": (4, 3), "b": (5,)}
INIT = {k: torch.randn(s) for k, s in SHAPES.items()}
GRADS = [{k: torch.randn(s) * (0.3 + 0.4 * i) for k, s in SHAPES.items()} for i in range(STEPS)]


def text(t):
    return " ".join("%.9g" % v for v in torch.as_tensor(t).reshape(-1).tolist())


class Lamb:
    """apex.optimizers.FusedLAMB, single precision."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.01, max_grad_norm=1.0,
                 bias_correction=True, grad_averaging=True, adam_w_mode=True, use_nvlamb=False):
        self.param_groups = [dict(params=list(params), lr=lr)]
        self.b, self.eps, self.wd, self.max = betas, eps, weight_decay, max_grad_norm
        self.bc, self.avg, self.w, self.nv = bias_correction, grad_averaging, adam_w_mode, use_nvlamb
        self.state, self.t = {}, 0

    def step(self):
        self.t += 1
        (b1, b2), lr = self.b, self.param_groups[0]["lr"]
        params = self.param_groups[0]["params"]
        norm = torch.sqrt(sum((p.grad ** 2).sum() for p in params))
        clip = norm / self.max if self.max and norm > self.max else 1.0
        for p in params:
            s = self.state.setdefault(p, dict(exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p)))
            g = p.grad / clip
            if not self.w:
                g = g + self.wd * p.data
            s["exp_avg"] = b1 * s["exp_avg"] + (1 - b1 if self.avg else 1.0) * g
            s["exp_avg_sq"] = b2 * s["exp_avg_sq"] + (1 - b2) * g * g
            m = s["exp_avg"] / (1 - b1 ** self.t if self.bc else 1)
            v = s["exp_avg_sq"] / (1 - b2 ** self.t if self.bc else 1)
            u = m / (v.sqrt() + self.eps)
            if self.w:
                u = u + self.wd * p.data
            ratio = lr
            if self.nv or self.wd != 0:
                np, nu = p.data.norm(), u.norm()
                if np != 0 and nu != 0:
                    ratio = lr * (np / nu)
            p.data -= ratio * u


class NovoGrad:
    """apex.optimizers.FusedNovoGrad, single precision."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, bias_correction=True,
                 grad_averaging=True, reg_inside_moment=False, norm_type=2, init_zero=False):
        self.param_groups = [dict(params=list(params), lr=lr)]
        self.b, self.eps, self.wd, self.bc, self.avg = betas, eps, weight_decay, bias_correction, grad_averaging
        self.inside, self.type, self.zero = reg_inside_moment, norm_type, init_zero
        self.state, self.t = {}, 0

    def step(self):
        self.t += 1
        (b1, b2), lr = self.b, self.param_groups[0]["lr"]
        for p in self.param_groups[0]["params"]:
            g = p.grad
            now = g.abs().max() if self.type == 0 else g.norm()
            if p not in self.state:
                self.state[p] = dict(exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros(()) if self.zero else now.clone())
            s = self.state[p]
            if self.type == 0:
                s["exp_avg_sq"] = b2 * s["exp_avg_sq"] + (1 - b2) * now
            else:
                s["exp_avg_sq"] = (b2 * s["exp_avg_sq"] ** 2 + (1 - b2) * now ** 2).sqrt()
            bc1 = 1 - b1 ** self.t if self.bc else 1
            bc2 = math.sqrt(1 - b2 ** self.t) if self.bc else 1
            den = s["exp_avg_sq"] / bc2 + self.eps
            b3 = 1 - b1 if self.avg else 1.0
            if self.inside:
                s["exp_avg"] = b1 * s["exp_avg"] + b3 * (g / den + self.wd * p.data)
                p.data -= lr * (s["exp_avg"] / bc1)
            else:
                s["exp_avg"] = b1 * s["exp_avg"] + b3 * g
                p.data -= lr * ((s["exp_avg"] / bc1) / den + self.wd * p.data)


def case(name, optimizer, make, schedule=None, scheduler=None, clip=None, scale=None, growth=None, bad=()):
    print("case", name)
    print("optimizer", optimizer)
    if schedule:
        print("schedule", schedule)
    if clip:
        print("clip", clip)
    if scale:
        print("scale", scale)
    params = {k: torch.nn.Parameter(v.clone()) for k, v in INIT.items()}
    opt = make(params)
    sched = scheduler(opt) if scheduler else None
    scaler = None
    if scale:
        keys = dict(init="init_scale", growth="growth_factor", backoff="backoff_factor", interval="growth_interval")
        given = dict(x.split("=") for x in scale.partition(":")[2].split(",") if x)
        scaler = torch.amp.GradScaler("cpu", **{keys[k]: int(v) if k == "interval" else float(v) for k, v in given.items()})
        scaler._lazy_init_scale_growth_tracker(torch.device("cpu"))
        if growth is not None:
            print("start train.growth", growth)
            scaler._growth_tracker.fill_(growth)
    for i in range(STEPS):
        if i in bad:
            print("bad", i)
        for k, p in params.items():
            g = GRADS[i][k].clone()
            if i in bad and k == "w":
                g[1, 2] = float("inf") if i % 2 else float("nan")
            p.grad = g * scaler.get_scale() if scaler else g
        if "rate" in dir(opt) or sched:
            print("rate", i, "%.9g" % opt.param_groups[0]["lr"])
        skip = False
        if scaler:
            scaler.unscale_(opt)
        elif i in bad:
            skip = True
        if clip and not skip:
            norm = torch.nn.utils.clip_grad_norm_(list(params.values()), clip)
            if norm.isfinite():
                print("after train.norm", i, "%.9g" % norm)
        if scaler:
            scaler.step(opt)
            scaler.update()
            print("after train.scale", i, "%.9g" % scaler.get_scale())
            print("after train.growth", i, scaler._growth_tracker.item())
        elif not skip:
            opt.step()
        if sched:
            sched.step()
        for k, p in params.items():
            print("param", k, i, text(p.data))
    for k, p in params.items():
        for slot, v in opt.state.get(p, {}).items():
            if slot != "step" and v is not None:
                print("state optimizer.%s.%s" % (slot, k), text(v))


def each(cls, **kw):
    return lambda params: cls(list(params.values()), **kw)


def main():
    o = torch.optim
    for k, v in INIT.items():
        print("init", k, text(v))
    for i, g in enumerate(GRADS):
        for k, v in g.items():
            print("grad", k, i, text(v))
    case("sgd", "sgd:lr=0.1", each(o.SGD, lr=0.1))
    case("sgd-momentum", "sgd:lr=0.1,momentum=0.9,weight_decay=0.01", each(o.SGD, lr=0.1, momentum=0.9, weight_decay=0.01))
    case("sgd-dampening", "sgd:lr=0.1,momentum=0.9,dampening=0.3", each(o.SGD, lr=0.1, momentum=0.9, dampening=0.3))
    case("sgd-nesterov", "sgd:lr=0.1,momentum=0.9,nesterov=1,maximize=true",
         each(o.SGD, lr=0.1, momentum=0.9, nesterov=True, maximize=True))
    case("adam", "adam", each(o.Adam))
    case("adam-options", "adam:lr=0.02,beta1=0.8,beta2=0.95,eps=1e-4,weight_decay=0.1,maximize=1",
         each(o.Adam, lr=0.02, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.1, maximize=True))
    case("adam-amsgrad", "adam:lr=0.02,beta2=0.5,amsgrad=1", each(o.Adam, lr=0.02, betas=(0.9, 0.5), amsgrad=True))
    case("adam-lerp", "adam:lr=0.02,beta1=0.3", each(o.Adam, lr=0.02, betas=(0.3, 0.999)))
    case("adamw", "adamw", each(o.AdamW))
    case("adamw-options", "adamw:lr=0.1,weight_decay=0.3,amsgrad=1", each(o.AdamW, lr=0.1, weight_decay=0.3, amsgrad=True))
    case("adamw-groups", "adamw:lr=0.1,weight_decay=0.3;b*:weight_decay=0,lr=0.01",
         lambda p: o.AdamW([dict(params=[p["w"]]), dict(params=[p["b"]], weight_decay=0, lr=0.01)], lr=0.1, weight_decay=0.3))
    case("adadelta", "adadelta", each(o.Adadelta))
    case("adadelta-options", "adadelta:lr=0.5,rho=0.7,eps=1e-3,weight_decay=0.1",
         each(o.Adadelta, lr=0.5, rho=0.7, eps=1e-3, weight_decay=0.1))
    case("adagrad", "adagrad", each(o.Adagrad))
    case("adagrad-options", "adagrad:lr=0.1,lr_decay=0.2,weight_decay=0.1,initial_accumulator_value=0.5,eps=1e-3",
         each(o.Adagrad, lr=0.1, lr_decay=0.2, weight_decay=0.1, initial_accumulator_value=0.5, eps=1e-3))
    case("rmsprop", "rmsprop", each(o.RMSprop))
    case("rmsprop-options", "rmsprop:lr=0.02,alpha=0.9,eps=1e-3,weight_decay=0.1,momentum=0.6,centered=1",
         each(o.RMSprop, lr=0.02, alpha=0.9, eps=1e-3, weight_decay=0.1, momentum=0.6, centered=True))
    case("lamb", "lamb", each(Lamb))
    case("lamb-options", "lamb:lr=0.1,beta1=0.8,beta2=0.9,eps=1e-3,weight_decay=0.2,max_grad_norm=2,bias_correction=0,grad_averaging=0,adam_w_mode=0",
         each(Lamb, lr=0.1, betas=(0.8, 0.9), eps=1e-3, weight_decay=0.2, max_grad_norm=2, bias_correction=False,
              grad_averaging=False, adam_w_mode=False))
    case("lamb-plain", "lamb:lr=0.1,weight_decay=0,max_grad_norm=0", each(Lamb, lr=0.1, weight_decay=0, max_grad_norm=0))
    case("lamb-nv", "lamb:lr=0.1,weight_decay=0,use_nvlamb=1", each(Lamb, lr=0.1, weight_decay=0, use_nvlamb=True))
    case("novograd", "novograd", each(NovoGrad))
    case("novograd-options", "novograd:lr=0.1,beta1=0.8,beta2=0.9,eps=1e-3,weight_decay=0.2,grad_averaging=0,init_zero=1",
         each(NovoGrad, lr=0.1, betas=(0.8, 0.9), eps=1e-3, weight_decay=0.2, grad_averaging=False, init_zero=True))
    case("novograd-inside", "novograd:lr=0.1,beta2=0.9,weight_decay=0.2,reg_inside_moment=1,norm_type=0,bias_correction=0",
         each(NovoGrad, lr=0.1, betas=(0.9, 0.9), weight_decay=0.2, reg_inside_moment=True, norm_type=0, bias_correction=False))

    s = o.lr_scheduler
    sgd = each(o.SGD, lr=0.1)
    case("schedule-step", "sgd:lr=0.1", sgd, "step:size=2,gamma=0.7,unit=step", lambda x: s.StepLR(x, 2, gamma=0.7))
    case("schedule-multistep", "sgd:lr=0.1", sgd, "multistep:milestones=1/4,gamma=0.3,unit=step",
         lambda x: s.MultiStepLR(x, [1, 4], gamma=0.3))
    case("schedule-cosine", "sgd:lr=0.1", sgd, "cosine:T_max=4,min=0.02,unit=step", lambda x: s.CosineAnnealingLR(x, 4, eta_min=0.02))
    case("schedule-linear", "sgd:lr=0.1", sgd, "linear:unit=step", lambda x: s.LinearLR(x))
    case("schedule-linear-options", "sgd:lr=0.1", sgd, "linear:start=1,end=0.2,length=3,unit=step",
         lambda x: s.LinearLR(x, start_factor=1, end_factor=0.2, total_iters=3))
    case("schedule-restarts", "sgd:lr=0.1", sgd, "restarts:T_max=2,min=0.02,unit=step", lambda x: s.CosineAnnealingWarmRestarts(x, 2, eta_min=0.02))
    case("schedule-growing", "sgd:lr=0.1", sgd, "restarts:period=1,growth=2,unit=step", lambda x: s.CosineAnnealingWarmRestarts(x, 1, 2))
    case("schedule-warmup", "sgd:lr=0.1", sgd, "cosine:period=4,warmup=3,unit=step",
         lambda x: s.SequentialLR(x, [s.LinearLR(x, start_factor=1 / 3, total_iters=2), s.CosineAnnealingLR(x, 4)], [3]))

    case("clip", "sgd:lr=0.1,momentum=0.9", each(o.SGD, lr=0.1, momentum=0.9), clip=1.5)
    case("clip-seldom", "sgd:lr=0.1", each(o.SGD, lr=0.1), clip=2.5)
    case("clip-lamb", "lamb:lr=0.1", each(Lamb, lr=0.1), clip=3)
    adam = each(o.Adam, lr=0.1)
    case("scaler", "adam:lr=0.1", adam, scale="dynamic", growth=1998, bad=(3, 4))
    case("scaler-clip", "sgd:lr=0.1,momentum=0.9", each(o.SGD, lr=0.1, momentum=0.9), scale="dynamic", clip=1.5, bad=(0, 3))
    case("scaler-options", "adam:lr=0.1", adam, scale="dynamic:init=3000,growth=1.7,backoff=0.3,interval=2", bad=(2,))
    case("scaler-saturates", "adam:lr=0.1", adam, scale="dynamic:init=1e38,growth=2,interval=1")
    case("scaler-growth", "adam:lr=0.1", adam, scale="dynamic:interval=5,backoff=0.1", growth=2, bad=(4,))
    case("clip-never", "sgd:lr=0.1", each(o.SGD, lr=0.1), clip=math.inf)
    for name in ("sgd:lr=0.1,momentum=0.9,dampening=0.2", "adam:lr=0.1", "adamw:lr=0.1", "adadelta", "adagrad:lr=0.1",
                 "rmsprop:lr=0.1,momentum=0.9,centered=1"):
        kind, _, rest = name.partition(":")
        kw = {k: float(v) for k, v in (x.split("=") for x in rest.split(",") if x)}
        cls = dict(sgd=o.SGD, adam=o.Adam, adamw=o.AdamW, adadelta=o.Adadelta, adagrad=o.Adagrad, rmsprop=o.RMSprop)[kind]
        case("bad-" + kind, name, each(cls, **kw), bad=(0, 3))
    case("bad-lamb", "lamb", each(Lamb), bad=(0, 3))
    case("bad-novograd", "novograd", each(NovoGrad), bad=(0, 3))


main()
