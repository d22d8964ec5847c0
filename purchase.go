package gputrain

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

const (
	// DefaultMaxOffers is how many offers in a row may refuse a machine before it counts as
	// one that cannot be had: see Spec.MaxOffers.
	DefaultMaxOffers = 100

	// A pool begins a launch every launchEvery at the most. Offers are tried one by one until
	// refusedAlone of them have refused, and then up to abreast at once, each for nodes of
	// its own: so no more is ever bought than is wanted.
	launchEvery  = 100 * time.Millisecond
	refusedAlone = 3
	abreast      = 8

	// tellEvery is how far apart the events are that count offers, and rentGather how long
	// nodes that want a machine at the same time wait for each other.
	tellEvery  = 5 * time.Second
	rentGather = 20 * time.Millisecond
)

// maxOffers is Spec.MaxOffers, or its default, or more offers than there are.
func (s Spec) maxOffers() int {
	switch s.MaxOffers {
	case 0:
		return DefaultMaxOffers
	case -1:
		return 1 << 30
	}
	return s.MaxOffers
}

// A purchase gets machines for nodes: from the first of the offers that has room for them,
// and what it does not have from the next. run owns it.
type purchase struct {
	p        *pool
	limit    int         // of offers that may refuse
	asked    []askedFor  // the offers, the best first
	nodes    []*poolNode // without a machine, and in no attempt
	wanted   int         // how many there were
	got      int         // and how many have one
	trying   int         // attempts under way
	tried    int         // offers
	refused  int         // of them, in a row
	single   bool        // one attempt at a time: the provider wants fewer calls
	stop     bool        // no offer will do
	hopeless map[*member]bool
	errs     []error
	told     time.Time // when an event has counted
	done     chan attempted
}

// An askedFor is an offer with what is known of it.
type askedFor struct {
	Offer
	trying, open, refused bool // by an attempt now; has had room, and may have more; has none
}

// An attempted is what came of one attempt.
type attempted struct {
	at    int // the offer
	got   int
	left  []*poolNode
	about *poolNode // the first that is left, or whose machine came with the error
	err   error
}

// rent gets a machine for each of the nodes and has them live.
func (p *pool) rent(nodes []*poolNode, offers []Offer) {
	b := &purchase{
		p: p, limit: p.spec.maxOffers(), nodes: nodes, wanted: len(nodes),
		hopeless: map[*member]bool{}, told: now(), done: make(chan attempted),
	}
	for _, n := range nodes {
		b.refused = max(b.refused, n.refused)
	}
	for _, o := range offers {
		b.asked = append(b.asked, askedFor{Offer: o})
	}
	b.run()
}

func (b *purchase) run() {
	for {
		for b.start() {
		}
		if b.trying == 0 {
			break
		}
		b.take(<-b.done)
	}
	b.nodes = b.p.stillWanted(b.nodes)
	if b.tried > 1 && len(b.nodes) > 0 {
		b.tell()
	}
	err := b.failure()
	for _, n := range b.nodes {
		n.refused = b.refused
		n.fail(err)
	}
}

// start begins an attempt, if one is due.
func (b *purchase) start() bool {
	if b.nodes = b.p.stillWanted(b.nodes); b.stop || len(b.nodes) == 0 || b.trying >= b.width() {
		return false
	}
	at, share := b.next(), b.share()
	if at < 0 || !b.asked[at].open && b.refused+b.trying >= b.limit || b.p.pace.wait(b.p.ctx) != nil {
		return false
	}
	o := &b.asked[at]
	if o.open {
		share = len(b.nodes)
	}
	if o.Available > 0 && !b.p.capsOf(o.Offer).Adopts {
		share = min(share, o.Available)
	}
	batch := b.nodes[:share:share]
	b.nodes = b.nodes[share:]
	if !o.open {
		b.tried++
	}
	o.trying = true
	b.trying++
	b.p.lives.Go(func() {
		left, err := b.p.buy(o.Offer, batch)
		about := batch[0]
		if len(left) > 0 {
			about = left[0]
		}
		b.done <- attempted{at, len(batch) - len(left), left, about, err}
	})
	return true
}

// width is how many attempts there may be at once.
func (b *purchase) width() int {
	if b.single || b.refused < refusedAlone {
		return 1
	}
	return abreast
}

// share is for how many of the nodes an offer of which nothing is known is tried.
func (b *purchase) share() int {
	free := b.width() - b.trying
	return (len(b.nodes) + free - 1) / free
}

// next returns the best of the offers that may have room and that no attempt is about, or
// -1.
func (b *purchase) next() int {
	for i := range b.asked {
		if o := &b.asked[i]; !o.trying && !o.refused && !b.hopeless[b.p.memberOf(o.Offer)] {
			return i
		}
	}
	return -1
}

// take takes in what came of an attempt.
func (b *purchase) take(a attempted) {
	o := &b.asked[a.at]
	b.trying--
	b.got += a.got
	o.trying = false
	b.nodes = append(a.left, b.nodes...)
	if o.Available > 0 {
		o.Available -= a.got
		o.refused = o.Available == 0 && !b.p.capsOf(o.Offer).Adopts
	}
	if a.got > 0 {
		b.refused = 0
		o.open = true
	}
	if a.err != nil {
		o.refused = true
		b.errs = append(b.errs, a.err)
	}
	if a.err == nil || errors.Is(a.err, ErrBudget) {
		return
	}
	if a.got == 0 {
		b.refused++
	}
	b.single = b.single || errors.Is(a.err, ErrRateLimited)
	b.p.avoid(o.Offer)
	b.p.events.emit(Event{Kind: EventNode, Node: a.about.rank(), State: NodeLaunching.String(), Err: a.err})
	if now().Sub(b.told) >= tellEvery {
		b.tell()
	}
	m := b.p.memberOf(o.Offer)
	_, unprepared := errors.AsType[*prepareError](a.err)
	b.hopeless[m] = b.hopeless[m] || unprepared || errors.Is(a.err, ErrAuth) || errors.Is(a.err, ErrInvalid) || m.caps.Adopts
	b.stop = b.stop || errors.Is(a.err, ErrLedger) || errors.Is(a.err, ErrFenced)
}

// count says how far it has come.
func (b *purchase) count() string {
	return fmt.Sprintf("%d of %d offers tried, %d of %d nodes have a machine", b.tried, len(b.asked), b.got, b.wanted)
}

// tell emits how far it has come, and what went wrong last.
func (b *purchase) tell() {
	b.told = now()
	err := error(&Error{Provider: b.p.provider, Op: "launch", Err: errors.New(b.count())})
	if len(b.errs) > 0 {
		err = &Error{Provider: b.p.provider, Op: "launch", Err: fmt.Errorf("%s; the last: %w", b.count(), b.errs[len(b.errs)-1])}
	}
	b.p.events.emit(Event{Kind: EventPool, State: "launching", Err: err})
}

// failure is why the nodes that are left have no machine.
func (b *purchase) failure() error {
	err := b.p.notLaunched(joinOnce(b.errs))
	if unique, ok := err.(interface{ Unwrap() []error }); ok {
		if all := unique.Unwrap(); len(all) > shownRefusals {
			err = &refusals{b.count(), all}
		}
	}
	if b.refused >= b.limit {
		hint := fmt.Sprintf("Spec.MaxOffers is %d", b.limit)
		err = &Error{Provider: b.p.provider, Op: "launch", Err: err, Hint: hint}
	}
	return err
}

// shownRefusals is how many errors of offers an error shows.
const shownRefusals = 5

// refusals are the errors of very many offers.
type refusals struct {
	count string
	all   []error
}

func (r *refusals) Error() string {
	var b strings.Builder
	b.WriteString(r.count)
	for _, err := range r.all[:shownRefusals] {
		b.WriteString("\n" + err.Error())
	}
	fmt.Fprintf(&b, "\nand %d more", len(r.all)-shownRefusals)
	return b.String()
}

func (r *refusals) Unwrap() []error { return r.all }

// A pace keeps calls apart.
type pace struct {
	mu   sync.Mutex
	next time.Time
}

// wait waits for the next time at which a launch may begin.
func (r *pace) wait(ctx context.Context) error {
	r.mu.Lock()
	at := now()
	if r.next.Before(at) {
		r.next = at
	}
	pause := r.next.Sub(at)
	r.next = r.next.Add(launchEvery)
	r.mu.Unlock()
	if pause > 0 && !sleep(ctx, pause) {
		return context.Cause(ctx)
	}
	return ctx.Err()
}

// A gathering has nodes that want a machine at the same time get it by one purchase.
type gathering struct {
	mu    sync.Mutex
	nodes []*poolNode
}

// rentTogether rents for a node, and for those for which it is called within rentGather.
func (p *pool) rentTogether(n *poolNode) {
	g := &p.gathering
	g.mu.Lock()
	g.nodes = append(g.nodes, n)
	first := len(g.nodes) == 1
	g.mu.Unlock()
	if !first {
		return
	}
	sleep(p.ctx, rentGather)
	g.mu.Lock()
	nodes := g.nodes
	g.nodes = nil
	g.mu.Unlock()
	p.rentMore(nodes)
}
