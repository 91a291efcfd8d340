"""FlexAttention names the devices it runs on, in a function of its own that no registration reaches: tpu is one more.

Its mathematics is operators like any other, in eager and compiled code."""


def allow(module) -> None:
    """module: torch.nn.attention.flex_attention."""
    check = module._validate_device

    def validate(query, key, value):
        if query.device.type != "tpu":
            check(query, key, value)

    module._validate_device = validate
