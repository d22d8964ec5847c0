package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gputrain/gputrain"
)

// A request is one call to the API. What an Op needs is set.
type request struct {
	Op              Op
	Client, Account string
	Pool            gputrain.PoolInfo
	Offer           gputrain.Offer
	Nodes           []gputrain.NodeRequest
	Token           string // of the launch
	Kind            string // of what is prepared or released
	IDs             []string
	Until           time.Time

	remote bool // machines are then reached by port
}

// An answer is what a call is answered with. What the Op tells is not nil.
type answer struct {
	Account   *account
	Offers    []gputrain.Offer
	Instances []gputrain.Instance
	Resources []gputrain.Resource
	Done      bool
}

// An account is what a driver needs to know of the cloud.
type account struct {
	Name             string
	ListLag          time.Duration
	PreemptionNotice time.Duration
	ProvisionTimeout time.Duration
	NoTokens         bool
}

// An apiError is an answer that is an error. Machines may come with it.
type apiError struct {
	Status     int
	Code       string
	Message    string
	Request    string
	RetryAfter time.Duration
	Instances  []gputrain.Instance
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

// Answered is what gputrain.CallError asks for.
func (e *apiError) Answered() bool { return true }

// What the API says.
const (
	statusInvalid      = 400
	statusUnauthorized = 401
	statusNotFound     = 404
	statusConflict     = 409
	statusRateLimited  = 429
	statusInternal     = 500
	statusUnavailable  = 503

	codeCapacity = "no_capacity"
	codeQuota    = "quota_exceeded"
)

// What is no answer.
var (
	errLost    = errors.New("the connection was cut before an answer came")
	errRefused = errors.New("the cloud does not answer")
	errGarbage = errors.New("the cloud's answer is not one")
)

// shared is a network or a key.
type shared struct {
	gputrain.Resource
	account string
	listed  time.Time
}

// launched is what a token stands for.
type launched struct {
	names    []string
	machines []*machine
	err      *apiError
}

// ordinal is a pool's number in the order in which they came. c.mu is held.
func (c *Cloud) ordinal(pool string) int {
	if _, ok := c.pools[pool]; !ok {
		c.pools[pool] = len(c.pools) + 1
	}
	return c.pools[pool]
}

// call is one call to the API, with what goes wrong.
func (c *Cloud) call(ctx context.Context, token gputrain.Secret, r request) (answer, error) {
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
	if err := c.pause(ctx, before); err != nil {
		// The request has left: what it asks for is done all the same.
		c.mu.Lock()
		late := !c.closed
		if late {
			c.wg.Add(1)
		}
		entry.Answer = "nobody waited: " + err.Error()
		c.mu.Unlock()
		if late {
			go func() {
				defer c.wg.Done()
				if c.pause(c.life, time.Until(entry.Time.Add(before))) == nil {
					c.apply(entry, r, f)
				}
			}()
		}
		return answer{}, err
	}
	a, err := c.apply(entry, r, f)
	if e := c.pause(ctx, after); e != nil {
		a, err = answer{}, e
	} else {
		a, err = spoil(a, err, f, entry.N)
	}
	c.mu.Lock()
	entry.Answer = told(a, err)
	c.mu.Unlock()
	return a, err
}

// pause waits, and says why it did not.
func (c *Cloud) pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.life.Done():
		return errRefused
	}
}

// begin notes a call and decides what goes wrong with it.
func (c *Cloud) begin(token gputrain.Secret, r request) (*Call, Fault, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.log) >= 2*maxLog {
		c.log = slices.Delete(c.log, 0, maxLog)
	}
	c.calls++
	entry := &Call{N: c.calls, Time: time.Now(), Op: r.Op, Client: r.Client, Account: r.Account, Pool: r.Pool.ID, On: slices.Clone(r.IDs)}
	key := fmt.Sprint(r.Op, r.Kind)
	if r.Pool.ID != "" {
		key += fmt.Sprint(" ", c.ordinal(r.Pool.ID))
	}
	for _, n := range r.Nodes {
		entry.On = append(entry.On, n.Name)
		key += fmt.Sprint(" ", n.Rank)
	}
	for _, id := range r.IDs {
		if m := c.machine(id); m != nil {
			key += fmt.Sprint(" ", c.ordinal(m.pool.ID), "/", m.inst.Rank)
		}
	}
	c.log = append(c.log, entry)
	var err error
	var f Fault
	switch {
	case c.closed:
		err = errRefused
	case c.isOut():
		err = errRefused
		entry.Effect = "outage"
	case !c.admits(token):
		err = &apiError{Status: statusUnauthorized, Message: "the token is not right"}
	default:
		f = c.decide(r.Op, key)
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
		entry.Answer = told(answer{}, err)
	}
	return entry, f, err
}

// numbered gives an answer that is an error its request's number.
func numbered(err error, n int) error {
	var e *apiError
	if !errors.As(err, &e) {
		return err
	}
	copied := *e
	copied.Request = fmt.Sprintf("%s-%d", name, n)
	return &copied
}

// spoil is what becomes of an answer on its way.
func spoil(a answer, err error, f Fault, n int) (answer, error) {
	switch f.Kind {
	case ErrorAfter:
		return answer{}, numbered(&apiError{Status: statusInternal, Message: "internal error"}, n)
	case Lost:
		return answer{}, errLost
	case Garbage:
		if f.empty {
			return answer{}, nil // an object without what belongs there
		}
		return answer{}, errGarbage
	case WithID:
		if err == nil {
			return answer{}, numbered(&apiError{Status: statusInternal, Message: "internal error while the machines were made", Instances: a.Instances}, n)
		}
	}
	return a, numbered(err, n)
}

// told says in a few words what a caller was told.
func told(a answer, err error) string {
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

// apply does what a call asks for.
func (c *Cloud) apply(entry *Call, r request, f Fault) (answer, error) {
	if r.Op == OpTerminate && f.Kind != Ignored {
		c.stopAll(r)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return answer{}, errRefused
	}
	if f.Kind == Ignored {
		entry.Effect = "ignored"
		return answer{Done: true}, nil
	}
	switch r.Op {
	case OpOpen:
		return answer{Account: &account{
			Name: c.name + "/" + r.Account, ListLag: c.opts.ListLag, PreemptionNotice: c.opts.PreemptionNotice,
			ProvisionTimeout: c.opts.ProvisionTimeout, NoTokens: c.opts.NoTokens,
		}}, nil
	case OpOffers:
		return c.listOffers(), nil
	case OpPrepare:
		return c.prepare(entry, r, f)
	case OpLaunch:
		return c.launchAll(entry, r, f)
	case OpDescribe:
		return c.describe(r), nil
	case OpList:
		return c.list(r), nil
	case OpTerminate:
		return c.terminate(entry, r)
	case OpRelease:
		return c.release(entry, r)
	case OpMarkLease:
		return c.markLease(entry, r)
	}
	return answer{}, &apiError{Status: statusNotFound, Message: "no such call"}
}

func (c *Cloud) listOffers() answer {
	a := answer{Offers: []gputrain.Offer{}}
	for _, o := range c.offers {
		if o.endless || o.Available > 0 {
			a.Offers = append(a.Offers, o.Offer)
		}
	}
	return a
}

// prepare makes a network or a key, once by its name.
func (c *Cloud) prepare(entry *Call, r request, f Fault) (answer, error) {
	if r.Pool.ID == "" || r.Kind == "" {
		return answer{}, &apiError{Status: statusInvalid, Message: "a pool and a kind belong here"}
	}
	for _, s := range c.shared {
		if s.account == r.Account && s.Kind == r.Kind && s.Pool == r.Pool.ID {
			return answer{Done: true}, nil
		}
	}
	now := time.Now()
	s := &shared{account: r.Account, listed: now.Add(c.opts.ListLag), Resource: gputrain.Resource{
		Provider: name, Kind: r.Kind, ID: r.Kind + "-" + r.Pool.ID, Name: r.Pool.ID, HourlyUSD: gputrain.USD(0),
		Pool: r.Pool.ID, Owner: r.Pool.Owner, Created: now, Lease: r.Pool.Lease, Expires: r.Pool.Expires,
	}}
	if f.Kind == Lag {
		s.listed = later(s.listed, now.Add(f.For))
	}
	c.shared = append(c.shared, s)
	c.note(s.ID, s.Name, s.Pool, "made", r.Client)
	entry.Effect = "made " + s.ID
	return answer{Done: true}, nil
}

// launchAll makes machines, as many as there are.
func (c *Cloud) launchAll(entry *Call, r request, f Fault) (answer, error) {
	var names []string
	for _, n := range r.Nodes {
		if n.Name == "" {
			return answer{}, &apiError{Status: statusInvalid, Message: "a machine has no name"}
		}
		names = append(names, n.Name)
	}
	token := r.Account + "\x00" + r.Token
	if c.opts.NoTokens || r.Token == "" {
		token = ""
	}
	if l := c.tokens[token]; token != "" && l != nil {
		if !slices.Equal(l.names, names) {
			return answer{}, &apiError{Status: statusInvalid, Message: "the token was used for other machines"}
		}
		entry.Effect = "the token was used before"
		return c.launchedAnswer(l, r)
	}
	l := &launched{names: names}
	of := c.offer(r.Offer)
	want := r.Nodes
	if f.Kind == Partial {
		fewer := cmp.Or(f.N, (len(want)+1)/2)
		want = want[:max(len(want)-fewer, 0)]
	}
	for i, n := range want {
		if l.err = c.room(of, r.Account); l.err != nil {
			break
		}
		l.machines = append(l.machines, c.launch(r, n, of, f))
		if f.Kind == Duplicate && i == 0 && c.room(of, r.Account) == nil {
			c.launch(r, n, of, f).duplicate = true
		}
	}
	if len(l.machines) > 0 && token != "" {
		c.tokens[token] = l
	}
	entry.Effect = fmt.Sprintf("launched %d", len(l.machines))
	return c.launchedAnswer(l, r)
}

func (c *Cloud) launchedAnswer(l *launched, r request) (answer, error) {
	a := answer{Instances: []gputrain.Instance{}}
	for _, m := range l.machines {
		a.Instances = append(a.Instances, m.told(r))
	}
	if l.err != nil {
		e := *l.err
		e.Instances = a.Instances
		return answer{}, &e
	}
	return a, nil
}

// offer finds what is to be rented, by its ID. c.mu is held.
func (c *Cloud) offer(want gputrain.Offer) *offer {
	for _, o := range c.offers {
		if o.ID == want.ID {
			return o
		}
	}
	return nil
}

// room says why no machine of an offer can be launched. c.mu is held.
func (c *Cloud) room(of *offer, account string) *apiError {
	switch {
	case of == nil:
		return &apiError{Status: statusConflict, Code: codeCapacity, Message: "there is no such offer any more"}
	case !of.endless && of.Available <= 0:
		return &apiError{Status: statusConflict, Code: codeCapacity, Message: "none is left of " + of.InstanceType + " in " + of.Region}
	case c.opts.Quota == 0:
		return nil
	}
	has := 0
	for _, m := range c.machines {
		if m.account == account && m.exists() {
			has++
		}
	}
	if has >= c.opts.Quota {
		return &apiError{Status: statusConflict, Code: codeQuota, Message: fmt.Sprintf("the account has %d machines, and may not have more", has)}
	}
	return nil
}

// told is the machine as its account is told of it. c.mu is held.
func (m *machine) told(r request) gputrain.Instance {
	in := m.inst
	if r.remote && in.State == gputrain.InstanceRunning {
		addr, err := m.node.publish()
		if err != nil {
			in.SSH.Addr = "" // it runs, and cannot be reached yet
		} else {
			in.SSH.Addr, in.PublicAddr = addr, "127.0.0.1"
		}
	}
	return in
}

func (c *Cloud) describe(r request) answer {
	a := answer{Instances: []gputrain.Instance{}}
	for _, id := range r.IDs {
		if m := c.machine(id); m != nil && m.account == r.Account && (!time.Now().Before(m.shown) || !m.exists()) {
			a.Instances = append(a.Instances, m.told(r))
		}
	}
	return a
}

func (c *Cloud) list(r request) answer {
	now := time.Now()
	a := answer{Resources: []gputrain.Resource{}}
	for _, m := range c.machines {
		if m.account == r.Account && m.exists() && !now.Before(m.listed) && (r.Pool.ID == "" || m.pool.ID == r.Pool.ID) {
			a.Resources = append(a.Resources, m.resource())
		}
	}
	for _, s := range c.shared {
		if s.account == r.Account && !now.Before(s.listed) && (r.Pool.ID == "" || s.Pool == r.Pool.ID) {
			a.Resources = append(a.Resources, s.Resource)
		}
	}
	return a
}

// stopAll ends what runs on machines that are about to be terminated, so that
// nothing does once that is told. c.mu is not held.
func (c *Cloud) stopAll(r request) {
	c.mu.Lock()
	var all []*machine
	for _, id := range r.IDs {
		if m := c.machine(id); m != nil && m.account == r.Account && m.exists() {
			all = append(all, m)
		}
	}
	c.mu.Unlock()
	c.stop(all)
}

func (c *Cloud) terminate(entry *Call, r request) (answer, error) {
	for _, id := range r.IDs {
		m := c.machine(id)
		switch {
		case m == nil || m.account != r.Account:
		case m.exists():
			m.end(gputrain.InstanceTerminated, "terminated by "+r.Client, r.Client)
			entry.Effect += "terminated " + id + " "
		default:
			m.inst.State = gputrain.InstanceTerminated // whatever it had come to
		}
	}
	return answer{Done: true}, nil
}

// release removes a network or a key. A network goes only when nothing is in it.
func (c *Cloud) release(entry *Call, r request) (answer, error) {
	if r.Kind == "network" {
		for _, m := range c.machines {
			if m.account == r.Account && m.pool.ID == r.Pool.ID && m.exists() {
				return answer{}, &apiError{Status: statusConflict, Code: "in_use", Message: "machine " + m.inst.ID + " is in the network"}
			}
		}
	}
	c.shared = slices.DeleteFunc(c.shared, func(s *shared) bool {
		gone := s.account == r.Account && s.Kind == r.Kind && s.Pool == r.Pool.ID
		if gone {
			c.note(s.ID, s.Name, s.Pool, "removed", r.Client)
			entry.Effect = "removed " + s.ID
		}
		return gone
	})
	return answer{Done: true}, nil
}

func (c *Cloud) markLease(entry *Call, r request) (answer, error) {
	for _, id := range r.IDs {
		if m := c.machine(id); m != nil && m.account == r.Account && m.exists() {
			m.leaseUntil = r.Until
			entry.Effect = "marked until " + r.Until.Format(time.TimeOnly)
		}
	}
	return answer{Done: true}, nil
}
