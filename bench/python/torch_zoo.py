# SPDX-License-Identifier: Apache-2.0
"""Programs of public model libraries, with random weights, whose sizes change from
step to step, for the programs beside it. Nobody chose their sizes for an allocator.

Each of PROGRAMS makes a model on a device and returns what makes its step of a
number. A step's sizes follow from its number alone, so that a program does the
same on each allocator. With `is_small` it is tried in no time, on a processor.
"""

import random
import warnings

import torch

SEED = 1


def sizes(least, most, step, index):
    """One of least, least + step, ..., most: steps take them by chance."""
    return random.Random(SEED * 1000003 + index).randrange(least, most + 1, step)


def autocast(device):
    return torch.autocast(torch.device(device).type, torch.bfloat16)


def trained(parameters, loss_of, make_optimizer=torch.optim.AdamW, rate=1e-4):
    """A step that makes the loss of its number smaller, and returns it."""
    optimizer = make_optimizer(parameters, lr=rate)

    def step(index):
        loss = loss_of(index)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step


def llama(is_small):
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM._from_config(LlamaConfig(
        vocab_size=512 if is_small else 32000,
        hidden_size=64 if is_small else 1536,
        intermediate_size=128 if is_small else 4096,
        num_hidden_layers=2 if is_small else 16,
        num_attention_heads=4 if is_small else 16,
        num_key_value_heads=2 if is_small else 4,
        max_position_embeddings=4096, bos_token_id=None, eos_token_id=None,
        pad_token_id=0), dtype=torch.bfloat16)


def words_of(model, batch, length, device):
    return torch.randint(1, model.config.vocab_size, (batch, length),
                         device=device)


def finetune(device, is_small):
    """LoRA by peft with checkpoints of activations; lengths vary."""
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(llama(is_small), LoraConfig(
        r=16, lora_alpha=32, lora_dropout=0.05, task_type="CAUSAL_LM",
        target_modules=["q_proj", "k_proj", "v_proj", "o_proj"]))
    model.gradient_checkpointing_enable({"use_reentrant": False})
    model.enable_input_require_grads()
    model.config.use_cache = False
    model.train()

    def loss_of(index):
        length = 16 if is_small else sizes(96, 1024, 8, index)
        words = words_of(model, 2 if is_small else 6, length, device)
        return model(input_ids=words, labels=words).loss

    return trained((parameter for parameter in model.parameters()
                    if parameter.requires_grad), loss_of)


def generation(device, is_small):
    """A cache of keys and values that grows with each word; prompts vary."""
    model = llama(is_small).eval()
    new = 4 if is_small else 32

    @torch.no_grad()
    def step(index):
        batch = 2 if is_small else sizes(4, 24, 4, index)
        length = 16 if is_small else sizes(64, 1536, 16, index + 1000)
        words = words_of(model, batch, length, device)
        found = model.generate(
            words, attention_mask=torch.ones_like(words), do_sample=False,
            min_new_tokens=new, max_new_tokens=new)
        return found[:, -1].float().mean()

    return step


def boxes_for(count, height, width, device):
    corners = torch.rand(count, 2, device=device) * 0.6
    extents = torch.rand(count, 2, device=device) * 0.3 + 0.08
    scale = torch.tensor([width, height], device=device)
    return torch.cat([corners * scale, (corners + extents) * scale], 1)


def detection(device, is_small):
    """Mask R-CNN of torchvision; images of several sizes in a batch."""
    from torchvision.models.detection import maskrcnn_resnet50_fpn

    least = 64 if is_small else 480
    model = maskrcnn_resnet50_fpn(
        weights=None, weights_backbone=None, num_classes=21, min_size=least,
        max_size=2 * least).train()

    def image(number):
        height = sizes(least, 2 * least, 16, number)
        width = sizes(least, 2 * least, 16, number + 1000)
        count = sizes(1, 12, 1, number + 2000)
        targets = {
            "boxes": boxes_for(count, height, width, device),
            "labels": torch.randint(1, 21, (count,), device=device),
            "masks": torch.randint(0, 2, (count, height, width),
                                   dtype=torch.uint8, device=device)}
        return torch.rand(3, height, width, device=device), targets

    def loss_of(index):
        batch = [image(8 * index + i) for i in range(1 if is_small else 4)]
        images, targets = map(list, zip(*batch))
        return sum(model(images, targets).values())

    return trained(model.parameters(), loss_of, torch.optim.SGD, 1e-4)


def graphs(device, is_small):
    """A GAT of torch_geometric on subgraphs of several sizes."""
    from torch_geometric.nn import GAT

    width = 32 if is_small else 128
    model = GAT(width, 32 if is_small else 256, num_layers=3, out_channels=47,
                heads=4, dropout=0.1).train()

    def loss_of(index):
        nodes = 200 if is_small else sizes(8000, 60000, 1, index)
        edges = nodes * sizes(6, 14, 1, index + 1000)
        ends = torch.randint(0, nodes, (2, edges), device=device)
        values = torch.randn(nodes, width, device=device)
        labels = torch.randint(0, 47, (nodes,), device=device)
        return torch.nn.functional.cross_entropy(model(values, ends), labels)

    return trained(model.parameters(), loss_of)


def classification(device, is_small):
    """A small BERT that learns classes of texts; lengths and batches vary."""
    from transformers import BertConfig, BertForSequenceClassification

    model = BertForSequenceClassification(BertConfig(
        hidden_size=64 if is_small else 512, num_labels=5,
        num_hidden_layers=2 if is_small else 8,
        num_attention_heads=4 if is_small else 8,
        intermediate_size=128 if is_small else 2048)).train()

    def loss_of(index):
        length = 16 if is_small else sizes(24, 512, 4, index)
        batch = 2 if is_small else 8 * sizes(2, 6, 1, index + 1000)
        words = words_of(model, batch, length, device)
        labels = torch.randint(0, 5, (batch,), device=device)
        with autocast(device):
            return model(input_ids=words, labels=labels,
                         attention_mask=torch.ones_like(words)).loss

    return trained(model.parameters(), loss_of)


def vision(device, is_small):
    """A ViT of timm whose batches vary."""
    import timm

    model = timm.create_model(
        "vit_tiny_patch16_224" if is_small else "vit_small_patch16_224",
        num_classes=100).train()

    def loss_of(index):
        batch = 2 if is_small else sizes(16, 128, 1, index)
        images = torch.rand(batch, 3, 224, 224, device=device)
        labels = torch.randint(0, 100, (batch,), device=device)
        with autocast(device):
            return torch.nn.functional.cross_entropy(model(images), labels)

    return trained(model.parameters(), loss_of)


def segmentation(device, is_small):
    """DeepLabV3 of torchvision; sizes of images and batches vary."""
    from torchvision.models.segmentation import deeplabv3_resnet50

    model = deeplabv3_resnet50(weights=None, weights_backbone=None,
                               num_classes=21).train()

    def loss_of(index):
        shape = [64, 64] if is_small else [
            sizes(256, 640, 16, index + 1000 * i) for i in range(2)]
        batch = 2 if is_small else sizes(2, 8, 1, index + 2000)
        images = torch.rand(batch, 3, *shape, device=device)
        labels = torch.randint(0, 21, (batch, *shape), device=device)
        with autocast(device):
            return torch.nn.functional.cross_entropy(model(images)["out"],
                                                     labels)

    return trained(model.parameters(), loss_of)


def translation(device, is_small):
    """A T5 that translates; both lengths vary."""
    from transformers import T5Config, T5ForConditionalGeneration

    model = T5ForConditionalGeneration(T5Config(
        vocab_size=512 if is_small else 32128, d_model=64 if is_small else 512,
        d_kv=16 if is_small else 64, d_ff=128 if is_small else 2048,
        num_layers=2 if is_small else 6, num_heads=4 if is_small else 8,
        decoder_start_token_id=0)).train()

    def loss_of(index):
        batch = 2 if is_small else 4 * sizes(2, 6, 1, index + 2000)
        of_source, of_target = (
            16 if is_small else sizes(32, 512, 4, index + 1000 * i)
            for i in range(2))
        words = words_of(model, batch, of_source, device)
        with autocast(device):
            return model(input_ids=words, labels=words_of(
                model, batch, of_target, device)).loss

    return trained(model.parameters(), loss_of)


# By name: what makes its step, and how many steps there are to measure.
PROGRAMS = {
    "finetune": (finetune, 14),
    "generation": (generation, 4),
    "detection": (detection, 10),
    "graphs": (graphs, 16),
    "classification": (classification, 40),
    "vision": (vision, 30),
    "segmentation": (segmentation, 20),
    "translation": (translation, 24),
}


def make(name, device, is_small=False):
    warnings.filterwarnings("ignore", category=UserWarning)
    torch.manual_seed(SEED)
    program, steps = PROGRAMS[name]
    with torch.device(device):
        step = program(device, is_small)
    return step, 2 if is_small else steps
