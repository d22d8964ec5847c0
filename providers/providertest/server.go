package providertest

import "github.com/gputrain/gputrain/internal/test/fakecloud"

// OnServer returns Harness.Fault and Harness.Calls for a fake that is, or has embedded, a
// *fakecloud.Server. ops names the operations of the API for each Op, as they were given to the
// server's Handle.
func OnServer(api interface {
	Inject(fakecloud.Fault) *fakecloud.Injected
	Records(ops ...string) []fakecloud.Record
}, ops map[Op][]string) (fault func(Op, Fault) (remove func()), calls func(Op) int) {
	fault = func(op Op, f Fault) func() {
		names := ops[op]
		if op == AnyOp {
			names = []string{""} // it means all
		}
		if len(names) == 0 {
			return nil
		}
		free := make(chan struct{}) // for hanging calls
		in := fakecloud.Of(f, free)
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
