"""Parts of a device that an expression looks at: devices alike in them get the same verdict."""

from typing import NamedTuple

from kubeshare_py.domain.devices.device import Device, DeviceAttribute, DeviceCapacity

ReadValue = DeviceAttribute | DeviceCapacity | str | bool | None


class DeviceRead(NamedTuple):
    """A field of the variable `device`; of `attributes` and `capacity`, a domain or an entry.

    `name` None asks whether there is anything in the domain.
    """

    field: str
    domain: str = ""
    name: str | None = None

    def of(self, driver: str, device: Device) -> ReadValue:
        """What it is for a device: the driver, an entry or None, or whether there is any."""
        if self.field == "driver":
            return driver
        if self.field == "allowMultipleAllocations":
            return "allowMultipleAllocations" in device.unsupported
        entries: tuple[DeviceAttribute | DeviceCapacity, ...] = (
            device.attributes if self.field == "attributes" else device.capacity
        )
        domain, name = self.domain, self.name
        if name is None:
            return any(one.domain == domain for one in entries)
        for one in entries:
            if one.name == name and one.domain == domain:
                return one
        return None
