# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping

from moiety import _native
from moiety._pools.pools import Pools

__all__ = ["provider_options", "release"]

def provider_options(pool: _native.Pool | Pools | _native.Tenant | None = None,
                     *, stream: int | None = None,
                     device_id: int | None = None) -> dict[str, str]: ...
def release(options: Mapping[str, str]) -> None: ...
