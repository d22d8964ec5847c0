package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// A request is one call to the API. Each Op sets the fields that it needs.
type request struct {
	Op              Op
	Client, Account string
	Pool            driver.PoolInfo
	Offer           driver.Offer
	Nodes           []driver.NodeRequest
	Token           string // the launch's
	Kind            string // the kind of thing to prepare or release
	IDs             []string
	Until           time.Time

	remote bool // machines then listen on ports
}

// An answer is the answer to a call. The fields of the Op are not nil.
type answer struct {
	Account   *account
	Offers    []driver.Offer
	Instances []driver.Instance
	Resources []driver.Resource
	Done      bool
	Balance   *driver.Balance
	Quota     *driver.Quota
}

// An account has the facts about the cloud that a driver needs.
type account struct {
	Name             string
	ListLag          time.Duration
	PreemptionNotice time.Duration
	ProvisionTimeout time.Duration
	NoTokens         bool
	TellsAccount     bool
	NoSelfDestruct   bool
}

// An apiError is an error as an answer. Machines may come with it.
type apiError struct {
	Status     int
	Code       string
	Message    string
	Request    string
	RetryAfter time.Duration
	Instances  []driver.Instance
}

func (e *apiError) Error() string {
	s := e.Message
	if e.Status > 0 {
		s = fmt.Sprintf("%d: %s", e.Status, s)
	}
	if e.RetryAfter > 0 {
		s += fmt.Sprintf(" (retry after %v)", e.RetryAfter)
	}
	return s
}

// Answered implements gputrain.CallError.
func (e *apiError) Answered() bool { return true }

// The API's statuses and codes.
const (
	statusInvalid      = 400
	statusUnauthorized = 401
	statusPayment      = 402
	statusNotFound     = 404
	statusConflict     = 409
	statusRateLimited  = 429
	statusInternal     = 500
	statusUnavailable  = 503

	codeCapacity = "no_capacity"
	codeQuota    = "quota_exceeded"
)

// Failures without an answer.
var (
	errLost    = errors.New("the connection was cut before an answer came")
	errRefused = errors.New("the cloud does not answer")
	errGarbage = errors.New("the cloud's answer is unreadable")
)

// call makes one call to the API, with the faults that apply.
func (c *Cloud) call(ctx context.Context, token driver.Secret, r request) (answer, error) {
	entry, f, err := c.begin(token, r)
	if err != nil {
		return answer{}, err
	}
	before, after := c.opts.Latency, time.Duration(0)
	switch f.Kind {
	case Delay:
		before += f.For
	case SlowAnswer:
		after = f.For
	}
	if err := c.life.pause(ctx, before); err != nil {
		// The request has left, so it is executed nevertheless.
		c.mu.Lock()
		late := !c.life.closed
		if late {
			c.life.wg.Add(1)
		}
		entry.Answer = "the caller did not wait: " + err.Error()
		c.mu.Unlock()
		if late {
			go func() {
				defer c.life.wg.Done()
				if c.life.pause(c.life.ctx, time.Until(entry.Time.Add(before))) == nil {
					c.apply(entry, r, f)
				}
			}()
		}
		return answer{}, err
	}
	a, err := c.apply(entry, r, f)
	if e := c.life.pause(ctx, after); e != nil {
		a, err = answer{}, e
	} else {
		a, err = spoil(a, err, f, entry.N)
	}
	c.mu.Lock()
	entry.Answer = summary(a, err)
	c.mu.Unlock()
	return a, err
}

// begin records a call and decides its fault.
func (c *Cloud) begin(token driver.Secret, r request) (*Call, Fault, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	entry := &Call{Time: time.Now(), Op: r.Op, Client: r.Client, Account: r.Account, Pool: r.Pool.ID, On: slices.Clone(r.IDs)}
	key := fmt.Sprint(r.Op, r.Kind)
	if r.Pool.ID != "" {
		key += fmt.Sprint(" ", c.fleet.ordinal(r.Pool.ID))
	}
	for _, n := range r.Nodes {
		entry.On = append(entry.On, n.Name)
		key += fmt.Sprint(" ", n.Rank)
	}
	for _, id := range r.IDs {
		if m := c.fleet.machine(id); m != nil {
			key += fmt.Sprint(" ", c.fleet.ordinal(m.pool.ID), "/", m.inst.Rank)
		}
	}
	c.record.call(entry)
	var err error
	var f Fault
	switch {
	case c.life.closed:
		err = errRefused
	case c.trouble.isOut():
		err = errRefused
		entry.Effect = "outage"
	case !c.admits(token):
		err = &apiError{Status: statusUnauthorized, Message: "the token is wrong"}
	default:
		f = c.trouble.decide(r.Op, key)
		entry.Fault = f.Kind
	}
	switch f.Kind {
	case Refused:
		err = errRefused
	case ErrorBefore:
		err = &apiError{Status: statusInternal, Message: "internal error"}
	case Unavailable:
		err = &apiError{Status: statusUnavailable, Message: "try again later"}
	case RateLimited:
		err = &apiError{Status: statusRateLimited, Message: "too many requests", RetryAfter: f.For}
	}
	if err != nil {
		err = numbered(err, entry.N)
		entry.Answer = summary(answer{}, err)
	}
	return entry, f, err
}

// numbered gives an error answer the number of its request.
func numbered(err error, n int) error {
	var e *apiError
	if !errors.As(err, &e) {
		return err
	}
	copied := *e
	copied.Request = fmt.Sprintf("%s-%d", name, n)
	return &copied
}

// spoil applies a fault to an answer.
func spoil(a answer, err error, f Fault, n int) (answer, error) {
	switch f.Kind {
	case ErrorAfter:
		return answer{}, numbered(&apiError{Status: statusInternal, Message: "internal error"}, n)
	case Lost:
		return answer{}, errLost
	case Garbage:
		if f.empty {
			return answer{}, nil // an object without its fields
		}
		return answer{}, errGarbage
	case WithID:
		if err == nil {
			return answer{}, numbered(&apiError{Status: statusInternal, Message: "internal error while the machines were made", Instances: a.Instances}, n)
		}
	}
	return a, numbered(err, n)
}

// summary describes an answer in a few words.
func summary(a answer, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case a.Offers != nil:
		return fmt.Sprintf("%d offers", len(a.Offers))
	case a.Instances != nil:
		s := ""
		for i, m := range a.Instances {
			if i > 0 {
				s += " "
			}
			s += m.ID + " " + m.State.String()
		}
		return cmp.Or(s, "no machines")
	case a.Resources != nil:
		s := ""
		for _, r := range a.Resources {
			s += r.Kind + " " + r.ID + " "
		}
		return cmp.Or(s, "nothing")
	case a.Done || a.Account != nil:
		return "ok"
	}
	return "an empty object"
}

// apply executes a call.
func (c *Cloud) apply(entry *Call, r request, f Fault) (answer, error) {
	if r.Op == OpTerminate && f.Kind != Ignored {
		c.stopAll(r)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.closed {
		return answer{}, errRefused
	}
	if f.Kind == Ignored {
		entry.Effect = "ignored"
		return answer{Done: true}, nil
	}
	return c.api.do(entry, r, f)
}

// stopAll ends the processes of machines that are about to be terminated, so that none runs
// once that is answered. c.mu is not held.
func (c *Cloud) stopAll(r request) {
	c.mu.Lock()
	all := c.api.named(r)
	c.mu.Unlock()
	c.fleet.stop(all...)
}
