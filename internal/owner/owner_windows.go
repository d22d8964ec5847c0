package owner

import (
	"errors"
	"strconv"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

// machine identifies the installation. Windows has no identifier for a boot, but the start times of
// processes are absolute.
func machine() (string, bool) {
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, `SOFTWARE\Microsoft\Cryptography`, registry.QUERY_VALUE|registry.WOW64_64KEY)
	if err != nil {
		return "", false
	}
	defer key.Close()
	id, _, err := key.GetStringValue("MachineGuid")
	return id, err == nil && id != ""
}

// find returns when a process started, in units of 100 ns since 1601.
func find(pid int) (start string, is presence) {
	process, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(pid))
	if errors.Is(err, windows.ERROR_INVALID_PARAMETER) {
		return "0", gone
	}
	if err != nil {
		return "0", hidden
	}
	defer windows.CloseHandle(process)
	const stillActive = 259
	var code uint32
	if err := windows.GetExitCodeProcess(process, &code); err != nil {
		return "0", hidden
	}
	if code != stillActive { // it has ended, but a handle to it may be open
		return "0", gone
	}
	var began, ended, kernel, user windows.Filetime
	if err := windows.GetProcessTimes(process, &began, &ended, &kernel, &user); err != nil {
		return "0", hidden
	}
	return strconv.FormatUint(uint64(began.HighDateTime)<<32|uint64(began.LowDateTime), 10), running
}
