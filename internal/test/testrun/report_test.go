package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// events are what go test -json prints for four packages: one passes and skips, one fails, one
// panics, and one does not compile.
const events = `{"Action":"start","Package":"github.com/gputrain/gputrain/a"}
{"Action":"output","Package":"github.com/gputrain/gputrain/a","Test":"TestOne","Output":"=== RUN   TestOne\n"}
{"Action":"output","Package":"github.com/gputrain/gputrain/a","Test":"TestOne","Output":"    one_test.go:3: chatter\n"}
{"Action":"pass","Package":"github.com/gputrain/gputrain/a","Test":"TestOne","Elapsed":0.1}
{"Action":"pass","Package":"github.com/gputrain/gputrain/a","Test":"TestOne/part","Elapsed":0.1}
{"Action":"output","Package":"github.com/gputrain/gputrain/a","Test":"TestHost","Output":"=== RUN   TestHost\n"}
{"Action":"output","Package":"github.com/gputrain/gputrain/a","Test":"TestHost","Output":"    one_test.go:8: another line\n"}
{"Action":"output","Package":"github.com/gputrain/gputrain/a","Test":"TestHost","Output":"    server.go:9: no sshd:\n"}
{"Action":"output","Package":"github.com/gputrain/gputrain/a","Test":"TestHost","Output":"        install openssh-server\n"}
{"Action":"output","Package":"github.com/gputrain/gputrain/a","Test":"TestHost","Output":"--- SKIP: TestHost (0.00s)\n"}
{"Action":"skip","Package":"github.com/gputrain/gputrain/a","Test":"TestHost","Elapsed":0}
{"Action":"output","Package":"github.com/gputrain/gputrain/a","Test":"TestLong","Output":"    long_test.go:9: scripts/test -deep runs it: an hour\n"}
{"Action":"skip","Package":"github.com/gputrain/gputrain/a","Test":"TestLong","Elapsed":0}
{"Action":"output","Package":"github.com/gputrain/gputrain/a","Output":"ok  \tgithub.com/gputrain/gputrain/a\t1.2s\n"}
{"Action":"pass","Package":"github.com/gputrain/gputrain/a","Elapsed":1.23}
{"Action":"output","Package":"github.com/gputrain/gputrain/b","Test":"TestLong","Output":"    long_test.go:9: scripts/test -deep runs it: an hour\n"}
{"Action":"skip","Package":"github.com/gputrain/gputrain/b","Test":"TestLong","Elapsed":0}
{"Action":"output","Package":"github.com/gputrain/gputrain/b","Test":"TestTwo","Output":"    two_test.go:5: it broke\n"}
{"Action":"fail","Package":"github.com/gputrain/gputrain/b","Test":"TestTwo","Elapsed":0}
{"Action":"output","Package":"github.com/gputrain/gputrain/b","Output":"FAIL\n"}
{"Action":"fail","Package":"github.com/gputrain/gputrain/b","Elapsed":2}
{"Action":"output","Package":"github.com/gputrain/gputrain/c","Test":"TestThree","Output":"panic: the reactor\n"}
{"Action":"fail","Package":"github.com/gputrain/gputrain/c","Elapsed":2}
{"ImportPath":"github.com/gputrain/gputrain/d","Action":"build-output","Output":"d.go:1:1: syntax error\n"}
{"ImportPath":"github.com/gputrain/gputrain/d","Action":"build-fail"}
{"Action":"output","Package":"github.com/gputrain/gputrain/d","Output":"FAIL\tgithub.com/gputrain/gputrain/d [build failed]\n"}
{"Action":"fail","Package":"github.com/gputrain/gputrain/d","Elapsed":0,"FailedBuild":"github.com/gputrain/gputrain/d"}
{"Action":"skip","Package":"github.com/gputrain/gputrain/e","Elapsed":0}
not an event
`

func TestReport(t *testing.T) {
	var out bytes.Buffer
	r := newReport(&out, func() time.Duration { return 75 * time.Second })
	r.total = 4
	read(strings.NewReader(events), r, run{part: "own"})
	r.end()
	r.endReasons()
	const want = `  1:15     1/4  own       ok     a                                           1.2s
  1:15     2/4  own       FAIL   b                                           2.0s
            two_test.go:5: it broke
        FAIL
  1:15     3/4  own       FAIL   c                                           2.0s
        panic: the reactor
d.go:1:1: syntax error
  1:15     4/4  own       FAIL   d                                           0.0s
        FAIL	github.com/gputrain/gputrain/d [build failed]
not an event

tests passed: 1, in 1 packages, in 1:15; packages FAILED: 3
skipped:
  2 tests: scripts/test -deep runs them
      a TestLong (an hour), b TestLong (an hour)
  1 test: no sshd: install openssh-server
      a TestHost

FAILED: own: b TestTwo: it broke
FAILED: own: c: panic: the reactor
FAILED: own: d: FAIL github.com/gputrain/gputrain/d [build failed]
`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if r.failed != 3 {
		t.Errorf("%d packages failed", r.failed)
	}
}

// A strict report counts the tests that skip because the machine lacks something, and no others.
func TestStrictReport(t *testing.T) {
	for strict, lacking := range map[bool]int{false: 0, true: 1} {
		var out bytes.Buffer
		r := newReport(&out, func() time.Duration { return 0 })
		r.strict = strict
		read(strings.NewReader(events), r, run{part: "own"})
		r.end()
		r.endReasons()
		if r.lacking != lacking || strings.Contains(out.String(), strictVariable) != strict {
			t.Errorf("strict %v: %d tests are lacking, want %d:\n%s", strict, r.lacking, lacking, out.String())
		}
	}
}
