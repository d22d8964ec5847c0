package fakecloud

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// powerScript is what the machine finds as shutdown, poweroff, halt, reboot and
// systemctl: it tells the machine, and touches no other.
const powerScript = `#!/bin/sh
echo "${0##*/} $*" >>"$FAKECLOUD_MACHINE/power"
`

// sudoScript runs what it is given: whoever logs in may do everything there.
const sudoScript = `#!/bin/sh
while case "${1-}" in -u | -g) shift; true ;; -*) true ;; *) false ;; esac; do shift; done
exec env "$@"
`

// powerEvery is how often a machine looks whether it was shut down from within.
const powerEvery = 20 * time.Millisecond

// furnish makes the machine's folders, and returns its environment.
func (m *Machine) furnish(cfg MachineConfig) ([]string, error) {
	bin, tmp := filepath.Join(m.dir, "bin"), filepath.Join(m.dir, "tmp")
	for _, dir := range []string{m.Home, bin, tmp} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, err
		}
	}
	scripts := map[string]string{"sudo": sudoScript}
	for _, name := range []string{"shutdown", "poweroff", "halt", "reboot", "systemctl"} {
		scripts[name] = powerScript
	}
	for name, text := range cfg.Programs {
		scripts[name] = "#!/bin/sh\n" + text + "\n"
	}
	for name, text := range scripts {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o700); err != nil {
			return nil, err
		}
	}
	env := []string{
		"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"),
		"USER=" + m.User, "LOGNAME=" + m.User, "SHELL=/bin/sh", "TMPDIR=" + tmp, m.mark(),
	}
	return append(env, cfg.Env...), nil
}

// mark is in the environment of every process of the machine.
func (m *Machine) mark() string { return "FAKECLOUD_MACHINE=" + m.dir }

// watchPower takes the machine down when it has shut itself down.
func (m *Machine) watchPower() {
	tick := time.NewTicker(powerEvery)
	defer tick.Stop()
	for {
		select {
		case <-m.down:
			return
		case <-tick.C:
		}
		text, _ := os.ReadFile(filepath.Join(m.dir, "power")) // not there: nothing asked for
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); takesDown(line) {
				m.end(line)
				return
			}
		}
	}
}

// takesDown reports whether a command takes a machine down now. A shutdown that
// is only planned is not carried out, nor is a reboot.
func takesDown(command string) bool {
	words := strings.Fields(command)
	says := func(any ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(any, w) })
	}
	if words[0] == "shutdown" {
		return says("now", "+0") && !says("-c", "-r")
	}
	return says("poweroff", "halt")
}

// removeAll removes a folder whatever a task has made of it: folders that cannot
// be entered are made so first.
func removeAll(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			os.Chmod(path, 0o700) // before WalkDir reads it
		}
		return nil
	})
	return os.RemoveAll(dir)
}
