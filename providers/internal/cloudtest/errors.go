package cloudtest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/providertest"
)

// A Refusal is an answer of the API, and the kind of error that it becomes.
type Refusal struct {
	// Name is the subtest's. Empty means the answer's status and body.
	Name string
	// Op is the API's. The driver is asked for what Cloud.Ops has it for: a launch, the end of a machine, or offers. Any other
	// is asked for by a list.
	Op     string
	Answer fakecloud.Answer
	// Want is the error's kind. Nil means any error.
	Want error
	// Says are parts of the error's text or hint, separated by "|".
	Says string
}

// Refused returns a [Refusal].
func Refused(name, op string, answer fakecloud.Answer, want error, says ...string) Refusal {
	return Refusal{Name: name, Op: op, Answer: answer, Want: want, Says: strings.Join(says, "|")}
}

// users are the kinds of errors that only the user can do something about: they come with a hint.
var users = []error{driver.ErrAuth, driver.ErrBalance, driver.ErrQuota, driver.ErrRateLimited}

// Errors has the API answer always with a refusal, each in a fake of its own. Its error is of the right kind, in the form of the
// provider's, and shows no secret. A launch is asked for once, unless there are too many calls, and has made no machine, and one that could not be ended is there; otherwise Release leaves nothing.
func (c Cloud[F, C]) Errors(t *testing.T, refusals []Refusal) {
	t.Parallel()
	for _, r := range refusals {
		t.Run(cmp.Or(r.Name, fmt.Sprintf("%s: %d %.80v", r.Op, r.Answer.Status, r.Answer.Body)), func(t *testing.T) {
			t.Parallel()
			f := c.still(t)
			d := Prepared(t, c.Config(f))
			var in driver.Instance
			machines := 0
			op := c.opOf(r.Op)
			if op == providertest.OpTerminate {
				in, machines = MustLaunch(t, d, c.Spec.Query(), 0), 1
			}
			fault := f.Inject(fakecloud.Fault{Op: r.Op, Answer: r.Answer, Times: -1})
			err := c.ask(t, d, op, in)
			fault.Remove()
			if n := fault.Hits(); n == 0 || n > 1 && op == providertest.OpLaunch && r.Want != driver.ErrRateLimited && !c.Repeats {
				t.Errorf("%d calls had this answer", n)
			}
			hint := ""
			if e, ok := errors.AsType[*driver.Error](err); ok {
				hint = e.Hint
			}
			for _, word := range strings.Split(r.Says, "|") {
				if !strings.Contains(fmt.Sprint(err, hint), word) {
					t.Errorf("%v does not say %q", err, word)
				}
			}
			switch {
			case err == nil:
				t.Fatalf("%d %v is a success", r.Answer.Status, r.Answer.Body)
			case hint == "" && slices.Contains(users, r.Want):
				t.Errorf("%v does not say what to do", err)
			}
			if r.Want != nil {
				Is(t, err, r.Want, c.Name, string(op), c.Secrets...)
			}
			if n := c.kinds(f)["machine"]; n != machines {
				t.Errorf("there are %d machines, want %d", n, machines)
			}
			if machines == 0 {
				if err := d.Release(t.Context(), Info("p1")); err != nil {
					t.Error(err)
				}
				Empty(t, c.Account(f))
			}
		})
	}
}

// opOf returns the driver's operation for one of the API's.
func (c Cloud[F, C]) opOf(name string) providertest.Op {
	for _, op := range []providertest.Op{providertest.OpLaunch, providertest.OpTerminate, providertest.OpOffers} {
		if slices.Contains(c.Ops[op], name) {
			return op
		}
	}
	return providertest.OpList
}

// ask has a driver do something, and returns its error.
func (c Cloud[F, C]) ask(t *testing.T, d driver.Driver, op providertest.Op, in driver.Instance) (err error) {
	t.Helper()
	switch op {
	case providertest.OpLaunch:
		var got []driver.Instance
		if got, err = Launch(t, d, c.Spec.Query(), 0); len(got) != 0 {
			t.Errorf("launched %+v", got)
		}
	case providertest.OpTerminate:
		err = d.Terminate(t.Context(), in.ID)
	case providertest.OpOffers:
		for _, err = range d.Offers(t.Context(), c.Spec.Query()) {
		}
	default:
		_, err = d.List(t.Context(), "p1")
	}
	return err
}
