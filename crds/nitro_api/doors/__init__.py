"""Doors: listening sockets of which strangers can take neither the places nor much processor time.

The servers of operator and learner listen with them. A network neighbour can open any number of connections,
hold them, or open them again without pause. A door bounds what that takes:

- It has a number of places. Once all are taken, a new connection takes the oldest place of the source (an IP
  address) that has most. So a source with a few connections keeps them, whatever another one opens.
- A source that opens connections faster than its `Rate` is shut out for some seconds: the kernel drops its
  packets before any queue (a socket filter, which needs no right). Where the kernel has no such filters, or a
  rate does not ask for that, what is too much is reset as soon as it comes.
- A connection that has logged in is `welcome`: it takes no place of these any more. While it is open, and
  some minutes after, its source is not shut out, because others may come from behind the same address.
"""

from nitro_api.doors.door import BACKLOG, Door, Guest, Rate, doors

__all__ = ["BACKLOG", "Door", "Guest", "Rate", "doors"]
