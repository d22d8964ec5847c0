// Package machine is an SSH machine on this computer: a server inside this program whose
// commands are real processes that start in a home folder of their own.
//
// The nodes of providers/local, the machines of providers/sim and those of the fake clouds
// in tests are Machines. Each has a mark, a variable in the environment of all that runs
// there: by that its processes are found when it ends, also those that detached themselves.
// Names of homes, what is kept in them, and the rest of the environment are the user's.
//
// On Linux all processes of this user are found. On macOS the system hides the environment
// of its own programs, such as /bin/sleep; elsewhere none are found.
package machine
