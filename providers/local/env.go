package local

import (
	"net/url"
	"strings"

	"github.com/gputrain/gputrain/internal/childenv"
)

// loginEnv are the variables of this program's environment that a node sees: those that a login
// on the same machine would set, and those that a program needs to run or to reach the
// internet. A name that ends in * is a prefix.
var loginEnv = []string{
	"PATH", "SHELL", "USER", "LOGNAME", "TMPDIR", "TZ", "LANG", "LANGUAGE", "LC_*",
	"LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_VISIBLE_DEVICES",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
	"http_proxy", "https_proxy", "all_proxy", "no_proxy",
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
}

// environment returns the part of environ that nodes see: the names in loginEnv, without values
// that hold a password, and the names in pass.
func environment(environ, pass []string) []string {
	var env []string
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		if childenv.Names(pass, name) || childenv.Names(loginEnv, name) && !holdsPassword(value) {
			env = append(env, v)
		}
	}
	return env
}

// holdsPassword reports whether a value, such as a proxy's, is an address with a password.
func holdsPassword(value string) bool {
	if !strings.Contains(value, "@") {
		return false
	}
	if !strings.Contains(value, "://") {
		value = "http://" + value // proxies are often written without it
	}
	u, err := url.Parse(value)
	return err != nil || u.User != nil
}
