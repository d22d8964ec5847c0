package providertest

import (
	"fmt"
	"net/http"
	"time"

	"github.com/gputrain/gputrain/internal/fakecloud"
)

// OnServer returns Harness.Fault and Harness.Calls for a fake that is a fakecloud
// server. ops names, for each Op, the operations of the API that it consists of, as
// the server's Handle was given them.
func OnServer(api *fakecloud.Server, ops map[Op][]string) (fault func(Op, Fault) (remove func()), calls func(Op) int) {
	fault = func(op Op, f Fault) func() {
		names := ops[op]
		if op == AnyOp {
			names = []string{""} // which stands for all
		}
		if len(names) == 0 {
			return nil
		}
		free := make(chan struct{}) // what hangs
		in := fakecloud.Fault{Times: f.Times, After: f.After}
		switch f.Kind {
		case Failed:
			in.Answer = fakecloud.Failure(500, "internal error", "")
		case Unavailable:
			in.Answer = fakecloud.Failure(503, "try again later", "")
		case RateLimited:
			after := ""
			if f.RetryAfter > 0 {
				after = fmt.Sprint(int(f.RetryAfter / time.Second))
			}
			in.Answer = fakecloud.Failure(429, "too many requests", after)
		case Cut:
			in.Cut = true
		case Garbage:
			in.Answer = fakecloud.Garbage()
		case HTML:
			in.Answer = fakecloud.HTML()
		case Empty:
			in.Answer = fakecloud.Empty()
		case Huge:
			in.Answer = fakecloud.Huge(100 << 20)
		case Astray:
			in.Answer = fakecloud.HTML()
			in.Answer.Status = http.StatusNotFound
		case Redirected:
			in.Answer = fakecloud.Reply(f.Status, "").With("Location", f.To)
		case Undone:
			in.Undone = true
		case Missing:
			in.Missing = true
		case Hang:
			in.Hold, in.Cut = free, true
		}
		var all []*fakecloud.Injected
		for _, in.Op = range names {
			all = append(all, api.Inject(in))
		}
		ended := false
		return func() {
			if ended {
				return
			}
			ended = true
			for _, in := range all {
				in.Remove()
			}
			close(free)
		}
	}
	calls = func(op Op) int {
		if op == AnyOp {
			return len(api.Records())
		}
		if len(ops[op]) == 0 {
			return 0
		}
		return len(api.Records(ops[op]...))
	}
	return fault, calls
}
