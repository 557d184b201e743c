# SPDX-License-Identifier: Apache-2.0
"""Finds the frameworks that capture graphs, whether they are imported already
or later, and wraps what they capture with (guard.py): frameworks.py says what
of each that is."""

import sys
import threading
import warnings

from moiety._capture.frameworks import CudaCore, CuPy, Torch

FRAMEWORKS = (Torch, CuPy, CudaCore)


class Hook:
    """A finder of sys.meta_path that finds nothing itself: it has the others
    look, and makes the loader call patch() when it has run the module."""

    def __init__(self, frameworks=FRAMEWORKS):
        self._frameworks = {each.MODULE: each for each in frameworks}
        # To undo: by the name of the module.
        self._patched = {}
        self._lock = threading.RLock()
        self._searching = threading.local()

    def install(self):
        """May be called again; then it changes nothing."""
        with self._lock:
            if self not in sys.meta_path:
                sys.meta_path.insert(0, self)
        # After that, so that no import comes between.
        for name in self._frameworks:
            module = sys.modules.get(name)
            if module is not None and not is_being_imported(module):
                self.patch(name, module)

    def uninstall(self):
        """Brings everything back as it was. Captures under way keep their
        guard until they are dropped."""
        with self._lock:
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            for undo in self._patched.values():
                for each in reversed(undo):
                    each()
            self._patched.clear()

    def patch(self, name, module):
        """Wraps what the module captures with; once. A framework that has
        changed stays as it is, and that is said."""
        with self._lock:
            if name in self._patched:
                return
            try:
                self._patched[name] = self._frameworks[name].patch(module)
                return
            except (AttributeError, StopIteration) as error:
                self._patched[name] = []
                reason = error
        warnings.warn(
            f"moiety does not know how this version of {name} captures graphs "
            f"({reason}): memory that is freed during a capture may break it",
            RuntimeWarning, stacklevel=2)

    def find_spec(self, name, path=None, target=None):
        """Called by Python's import."""
        if name not in self._frameworks or hasattr(self._searching, "name"):
            return None
        self._searching.name = name  # others of this kind may ask us in turn
        try:
            spec = find_spec_elsewhere(self, name, path, target)
        finally:
            del self._searching.name
        if spec is not None and spec.loader is not None:
            self._tell_when_loaded(name, spec.loader)
        return spec

    def _tell_when_loaded(self, name, loader):
        run = loader.exec_module

        def exec_module(module):
            # A loader may serve several modules, as that of a zip file does;
            # and cuda.core has another name when it has run.
            is_wanted = module.__name__ == name
            run(module)
            if is_wanted and self in sys.meta_path:
                self.patch(name, module)

        # The module's loader looks the same as without us.
        loader.exec_module = exec_module


def find_spec_elsewhere(finder, name, path, target):
    for other in list(sys.meta_path):
        if other is not finder and hasattr(other, "find_spec"):
            spec = other.find_spec(name, path, target)
            if spec is not None:
                return spec
    return None


def is_being_imported(module):
    return getattr(getattr(module, "__spec__", None), "_initializing", False)


HOOK = Hook()
