package rest

import (
	"runtime/debug"
	"strings"
	"sync"
)

const modulePath = "github.com/gputrain/gputrain"

// userAgent returns "gputrain/v1.2.3", by what the program was built with. Some APIs
// refuse the default of net/http.
var userAgent = sync.OnceValue(func() string {
	version := "devel"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range append(info.Deps, &info.Main) {
			if m.Path == modulePath && strings.HasPrefix(m.Version, "v") {
				version = m.Version
			}
		}
	}
	return "gputrain/" + version
})
