package ssh

import "syscall"

// Winsock's numbers of the same errors: WSAECONNREFUSED, WSAEHOSTUNREACH, WSAENETUNREACH.
// https://learn.microsoft.com/windows/win32/winsock/windows-sockets-error-codes-2
var absences = []error{syscall.Errno(10061), syscall.Errno(10065), syscall.Errno(10051)}
