package machine

import (
	"iter"
	"os"

	"golang.org/x/sys/unix"
)

// processIDs yields the number of every process of this user.
func processIDs() iter.Seq[int] {
	return func(yield func(int) bool) {
		all, _ := unix.SysctlKinfoProcSlice("kern.proc.uid", os.Getuid())
		for _, p := range all {
			if !yield(int(p.Proc.P_pid)) {
				return
			}
		}
	}
}

// processEnv returns the environment that a process was started with: nothing
// for one that has ended, and for programs of the system itself.
func processEnv(pid int) []byte {
	args, err := unix.SysctlRaw("kern.procargs2", pid)
	if err != nil {
		return nil
	}
	return envOfProcArgs(args)
}

// isOurProcess holds for all that processes yields.
func isOurProcess(int) bool { return true }
