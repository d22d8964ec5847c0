// Package childenv chooses the environment variables that a command which the library starts may
// see. The lists name what the commands need, so that credentials for other purposes are not passed
// on.
package childenv

import (
	"os"
	"runtime"
	"slices"
	"strings"
)

// System has the variables that any program needs to find its files, its language and the user's
// settings, and to start other programs.
var System = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "TMPDIR", "TZ", "LANG", "LANGUAGE", "LC_*", "LD_LIBRARY_PATH", "DYLD_*",
	"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_HOME", "XDG_DATA_DIRS", "XDG_RUNTIME_DIR", "XDG_STATE_HOME",
	// Windows
	"SystemRoot", "SystemDrive", "windir", "ComSpec", "PATHEXT", "TEMP", "TMP", "USERNAME", "USERDOMAIN", "USERPROFILE", "HOMEDRIVE", "HOMEPATH",
	"APPDATA", "LOCALAPPDATA", "ProgramData", "ALLUSERSPROFILE", "ProgramFiles", "ProgramFiles(x86)", "ProgramW6432", "CommonProgramFiles*",
	"PROCESSOR_ARCHITECTURE", "NUMBER_OF_PROCESSORS", "OS",
}

// Network has the variables that a program needs to reach the internet. A proxy's address may
// contain a password.
var Network = []string{
	"http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NETRC", "SSH_AUTH_SOCK",
}

// Go has the variables that the go command reads, and git, with which it fetches modules.
var Go = []string{
	"GO111MODULE", "GOAUTH", "GOBIN", "GOCACHE", "GOCACHEPROG", "GODEBUG", "GOENV", "GOFLAGS", "GOINSECURE", "GOMODCACHE",
	"GONOPROXY", "GONOSUMDB", "GOPATH", "GOPRIVATE", "GOPROXY", "GOROOT", "GOSUMDB", "GOTMPDIR", "GOTOOLCHAIN", "GOVCS", "GOWORK",
	"GO386", "GOAMD64", "GOARM", "GOARM64", "GOMIPS", "GOMIPS64", "GOPPC64", "GORISCV64", "GOWASM", "GOEXPERIMENT", "GOFIPS140",
	"GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GOTRACEBACK", "AR", "CC", "CXX", "FC", "PKG_CONFIG", "CGO_*",
	"GIT_ALLOW_PROTOCOL", "GIT_ASKPASS", "GIT_CONFIG_COUNT", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_KEY_*", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_SYSTEM",
	"GIT_CONFIG_VALUE_*", "GIT_EXEC_PATH", "GIT_PROXY_COMMAND", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSH_VARIANT", "GIT_SSL_*", "GIT_TERMINAL_PROMPT",
	"SSH_ASKPASS",
}

// Containers has the variables that the command lines of Docker, podman, nerdctl and Apple's
// container read.
var Containers = []string{
	"DOCKER_API_VERSION", "DOCKER_AUTH_CONFIG", "DOCKER_CERT_PATH", "DOCKER_CLI_*", "DOCKER_CONFIG", "DOCKER_CONTENT_TRUST", "DOCKER_CONTENT_TRUST_SERVER",
	"DOCKER_CONTEXT", "DOCKER_CUSTOM_HEADERS", "DOCKER_DEFAULT_PLATFORM", "DOCKER_HIDE_LEGACY_COMMANDS", "DOCKER_HOST", "DOCKER_TLS", "DOCKER_TLS_VERIFY",
	"CONTAINER_CONNECTION", "CONTAINER_HOST", "CONTAINER_PROXY", "CONTAINER_SSHKEY", "CONTAINER_TLS_*", "CONTAINERS_CONF", "CONTAINERS_CONF_OVERRIDE",
	"CONTAINERS_HELPER_BINARY_DIR", "CONTAINERS_REGISTRIES_CONF", "CONTAINERS_REGISTRIES_CONF_DIR", "CONTAINERS_STORAGE_CONF",
	"REGISTRY_AUTH_FILE", "STORAGE_DRIVER", "STORAGE_OPTS", "PODMAN_CONNECTIONS_CONF", "PODMAN_IGNORE_CGROUPSV1_WARNING", "PODMAN_USERNS",
	"CONTAINERD_ADDRESS", "CONTAINERD_NAMESPACE", "CONTAINERD_SNAPSHOTTER", "NERDCTL_HOST_GATEWAY_IP", "NERDCTL_TOML", "CNI_PATH", "NETCONFPATH",
	"DBUS_SESSION_BUS_ADDRESS",
}

// Of returns the variables of this process that one of the lists names, as "NAME=VALUE". It is
// never nil, because os/exec would pass on the whole environment then.
func Of(lists ...[]string) []string { return Select(os.Environ(), lists...) }

// Select does the same as Of with another environment.
func Select(environ []string, lists ...[]string) []string {
	kept := []string{}
	for _, v := range environ {
		name, _, _ := strings.Cut(v, "=")
		if slices.ContainsFunc(lists, func(list []string) bool { return Names(list, name) }) {
			kept = append(kept, v)
		}
	}
	return kept
}

// Names reports whether a list names a variable. A name that ends in * matches all variables with
// that prefix. On Windows the names of variables have no case.
func Names(list []string, name string) bool { return names(list, name, runtime.GOOS == "windows") }

func names(list []string, name string, anyCase bool) bool {
	if anyCase {
		name = strings.ToUpper(name)
	}
	return slices.ContainsFunc(list, func(p string) bool {
		if anyCase {
			p = strings.ToUpper(p)
		}
		prefix, all := strings.CutSuffix(p, "*")
		return p == name || all && strings.HasPrefix(name, prefix)
	})
}
