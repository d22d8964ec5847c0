"""Softmax regression on handwritten digits, in plain Python.

Trains with stochastic gradient descent, prints a line for each epoch, and
writes the accuracy on the held-out images to --out as JSON.
"""

import argparse
import csv
import gzip
import json
import math
import os
import random

CLASSES = 10


def load(path):
    with gzip.open(path, "rt") as f:
        rows = [[int(n) for n in row] for row in csv.reader(f)]
    # The last element is 1, so that the last weight is the bias.
    return [([n / 16 for n in row[:-1]] + [1.0], row[-1]) for row in rows]


def probabilities(weights, x):
    scores = [sum(map(float.__mul__, w, x)) for w in weights]
    top = max(scores)
    exps = [math.exp(s - top) for s in scores]
    total = sum(exps)
    return [e / total for e in exps]


def train_epoch(weights, examples, rate):
    for x, digit in examples:
        for c, p in enumerate(probabilities(weights, x)):
            step = rate * (p - (c == digit))
            if abs(step) > 1e-5:
                weights[c] = [w - step * v for w, v in zip(weights[c], x)]


def accuracy(weights, examples):
    right = 0
    for x, digit in examples:
        p = probabilities(weights, x)
        right += p.index(max(p)) == digit
    return right / len(examples)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--out", required=True)
    args = parser.parse_args()

    random.seed(1998)  # the same split and order for every setting
    examples = load(args.data)
    random.shuffle(examples)
    cut = len(examples) * 4 // 5
    train, test = examples[:cut], examples[cut:]

    weights = [[0.0] * len(examples[0][0]) for _ in range(CLASSES)]
    for epoch in range(1, args.epochs + 1):
        random.shuffle(train)
        train_epoch(weights, train, args.rate)
        print(f"rate {args.rate}: epoch {epoch}: accuracy {accuracy(weights, test):.4f}", flush=True)

    os.makedirs(os.path.dirname(args.out) or ".", exist_ok=True)
    with open(args.out, "w") as f:
        json.dump({"rate": args.rate, "accuracy": accuracy(weights, test)}, f)


if __name__ == "__main__":
    main()
