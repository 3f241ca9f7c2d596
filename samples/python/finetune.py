# SPDX-License-Identifier: Apache-2.0
"""Fine-tune a trained network: its convolutions stay as they are, what follows is trained on inverted pictures, which it has not seen.

usage: finetune.py MODEL.onnx PICTURES.idx3-ubyte LABELS.idx1-ubyte [EPOCHS]
"""
import sys

import numpy as np

import idx
import tccc


def main():
    x, y = 1 - idx.pictures(sys.argv[2]), idx.labels(sys.argv[3])
    epochs = int(sys.argv[4]) if len(sys.argv) > 4 else 5
    frozen = ["conv*"]
    step = tccc.train(sys.argv[1], loss="cross_entropy:input=logits", optimizer="adamw:lr=3e-3", freeze=frozen, schedule="cosine:period=%d" % epochs)
    before = step.state_dict(torch=False)

    def accuracy():
        return (step.predict(x).argmax(1) == y).mean()
    print(f"before: {accuracy():.1%} right")
    order = np.random.default_rng(0)
    for epoch in range(epochs):
        step.set_state("train.epoch", epoch)
        losses = [step(x[i], y[i]) for i in np.array_split(order.permutation(len(x)), max(len(x) // 32, 1))]
        print(f"epoch {epoch + 1}: loss {np.mean(losses):.4f}")
    print(f"after: {accuracy():.1%} right")
    after = step.state_dict(torch=False)
    print("changed:", ", ".join(n for n in after if not np.array_equal(before[n], after[n])))
    step.checkpoint("tuned.safetensors", weights_only=True)


if __name__ == "__main__":
    main()
