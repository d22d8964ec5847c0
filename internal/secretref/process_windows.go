package secretref

import (
	"context"
	"os/exec"
	"strconv"
	"syscall"

	"github.com/gputrain/gputrain/internal/childenv"
)

// shell returns a command line for cmd.exe. It ends with ctx, as do its children.
func shell(ctx context.Context, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "cmd")
	cmd.SysProcAttr = &syscall.SysProcAttr{CmdLine: `cmd /d /s /c "` + line + `"`, CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP, HideWindow: true}
	cmd.Cancel = func() error {
		kill := exec.Command("taskkill", "/t", "/f", "/pid", strconv.Itoa(cmd.Process.Pid))
		kill.Env = childenv.Of(childenv.System)
		if err := kill.Run(); err != nil {
			return cmd.Process.Kill()
		}
		return nil
	}
	return cmd
}

// endGroup does nothing: once a process has ended, its children cannot be found.
func endGroup(*exec.Cmd) {}
