package market

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

const (
	// Until refusedAlone offers in a row have refused, one is tried at a time. After that up
	// to abreast are tried at once, each for nodes of its own: no machine is bought twice.
	refusedAlone = 3
	abreast      = 8

	// Reports of progress are at least progressEvery apart.
	progressEvery = 5 * time.Second

	// An error of a purchase shows the errors of shownRefusals offers.
	shownRefusals = 5
)

// A Buyer launches machines for nodes of type N, and is notified of a purchase's progress. Buy is called by several
// goroutines, all other methods by the one that runs the purchase.
type Buyer[N any] interface {
	// Buy launches machines of an offer for the nodes, and returns the nodes that got none.
	// Nodes may have got a machine although there is an error.
	Buy(o driver.Offer, nodes []N) (left []N, err error)
	// Wanted returns the nodes that still want a machine.
	Wanted(nodes []N) []N
	// Refused reports that an offer failed, and a node that it failed for.
	Refused(node N, err error)
	// Progress reports how many offers were tried, and the last error.
	Progress(err error)
}

// A Purchase gets machines for nodes: from the first offers that have room, and for nodes that
// are left from the next ones. It is used once, by one goroutine.
type Purchase[N any] struct {
	market *Market
	buyer  Buyer[N]
	limit  int           // of offers in a row that may refuse
	offers []triedOffer  // the best first
	done   chan trial[N] // attempts that are over

	nodes    []N // without a machine, and in no attempt
	wanted   int // nodes that there were
	got      int // nodes that have a machine
	trying   int // attempts under way
	tried    int // offers
	refused  int // offers in a row that have refused
	single   bool
	stop     bool            // no further offer can help
	hopeless map[string]bool // by source: none of its offers can help
	errs     []error
	reported time.Time // the time of the last progress report
}

// A triedOffer is an offer with the results of its attempts.
type triedOffer struct {
	driver.Offer
	trying  bool // by an attempt under way
	open    bool // it has had room, and may have more
	refused bool // it has no room
}

// A trial is an attempt that is over.
type trial[N any] struct {
	index int // the offer's index
	got   int
	left  []N
	node  N // the first node that is left, or whose machine came with the error
	err   error
}

// NewPurchase returns a purchase of these offers, which come the best first. It gives up once
// limit offers in a row have refused, counting refused ones that have before it.
func NewPurchase[N any](m *Market, buyer Buyer[N], offers []driver.Offer, limit, refused int) *Purchase[N] {
	p := &Purchase[N]{market: m, buyer: buyer, limit: limit, refused: refused, hopeless: map[string]bool{}, done: make(chan trial[N])}
	for _, o := range offers {
		p.offers = append(p.offers, triedOffer{Offer: o})
	}
	return p
}

// Refused returns how many offers in a row have refused.
func (p *Purchase[N]) Refused() int { return p.refused }

// Run buys until each node has a machine or no offer is left to try. It returns the nodes that
// have none although they still want one, and why.
func (p *Purchase[N]) Run(ctx context.Context, nodes []N) (left []N, err error) {
	p.nodes, p.wanted, p.reported = nodes, len(nodes), time.Now()
	var attempts sync.WaitGroup
	defer attempts.Wait()
	for {
		for p.start(ctx, &attempts) {
		}
		if p.trying == 0 {
			break
		}
		p.take(<-p.done)
	}
	p.nodes = p.buyer.Wanted(p.nodes)
	if p.tried > 1 && len(p.nodes) > 0 {
		p.report()
	}
	return p.nodes, p.failure()
}

// start begins an attempt if one is due, and reports whether it has.
func (p *Purchase[N]) start(ctx context.Context, attempts *sync.WaitGroup) bool {
	if p.nodes = p.buyer.Wanted(p.nodes); p.stop || len(p.nodes) == 0 || p.trying >= p.width() {
		return false
	}
	at, share := p.next(), p.share()
	if at < 0 || !p.offers[at].open && p.refused+p.trying >= p.limit || p.market.pace.wait(ctx) != nil {
		return false
	}
	o := &p.offers[at]
	if o.open {
		share = len(p.nodes)
	}
	if o.Available > 0 && !p.market.caps.Of(o.Offer).Adopts {
		share = min(share, o.Available)
	}
	batch := p.nodes[:share:share]
	p.nodes = p.nodes[share:]
	if !o.open {
		p.tried++
	}
	o.trying = true
	p.trying++
	offer := o.Offer
	attempts.Go(func() {
		left, err := p.buy(ctx, offer, batch)
		node := batch[0]
		if len(left) > 0 {
			node = left[0]
		}
		p.done <- trial[N]{at, len(batch) - len(left), left, node, err}
	})
	return true
}

// buy launches machines of an offer. With a private network they are in that of the pool's machines.
func (p *Purchase[N]) buy(ctx context.Context, o driver.Offer, nodes []N) (left []N, err error) {
	leave, err := p.market.enter(ctx, o)
	if err != nil {
		return nodes, err
	}
	defer leave()
	return p.buyer.Buy(o, nodes)
}

// width returns how many attempts there may be at once. The pool's first machine is launched alone if it decides on
// the network of the others.
func (p *Purchase[N]) width() int {
	if p.single || p.refused < refusedAlone || p.market.isFounding() {
		return 1
	}
	return abreast
}

// share returns for how many nodes an offer is tried of which nothing is known.
func (p *Purchase[N]) share() int {
	free := p.width() - p.trying
	return (len(p.nodes) + free - 1) / free
}

// next returns the index of the best offer that may have room and is not tried now, or -1.
func (p *Purchase[N]) next() int {
	return slices.IndexFunc(p.offers, func(o triedOffer) bool {
		return !o.trying && !o.refused && !p.hopeless[source(o.Offer)] && p.market.elsewhere(o.Offer) == ""
	})
}

// take records an attempt that is over.
func (p *Purchase[N]) take(t trial[N]) {
	o := &p.offers[t.index]
	adopts := p.market.caps.Of(o.Offer).Adopts
	p.trying--
	p.got += t.got
	o.trying = false
	p.nodes = append(t.left, p.nodes...)
	if o.Available > 0 {
		o.Available -= t.got
		o.refused = o.Available == 0 && !adopts
	}
	if t.got > 0 {
		p.refused = 0
		o.open = true
	}
	if t.err == nil || errors.Is(t.err, errElsewhere) { // which next leaves out
		return
	}
	o.refused = true
	p.errs = append(p.errs, t.err)
	if errors.Is(t.err, driver.ErrBudget) {
		return
	}
	if t.got == 0 {
		p.refused++
	}
	p.single = p.single || errors.Is(t.err, driver.ErrRateLimited)
	p.market.Avoid(o.Offer, nil)
	p.buyer.Refused(t.node, t.err)
	if time.Since(p.reported) >= progressEvery {
		p.report()
	}
	from := source(o.Offer)
	p.hopeless[from] = p.hopeless[from] || adopts || isHopeless(t.err)
	p.stop = p.stop || errors.Is(t.err, driver.ErrLedger) || errors.Is(t.err, driver.ErrFenced)
}

// isHopeless reports whether the source's other offers would fail in the same way.
func isHopeless(err error) bool {
	_, unprepared := errors.AsType[*PrepareError](err)
	return unprepared || errors.Is(err, driver.ErrAuth) || errors.Is(err, driver.ErrBalance) || errors.Is(err, driver.ErrInvalid)
}

// count describes the progress of the purchase.
func (p *Purchase[N]) count() string {
	return fmt.Sprintf("%d of %d offers tried, %d of %d nodes have a machine", p.tried, len(p.offers), p.got, p.wanted)
}

// report reports progress, and the last error.
func (p *Purchase[N]) report() {
	p.reported = time.Now()
	err := errors.New(p.count())
	if len(p.errs) > 0 {
		err = fmt.Errorf("%s; the last: %w", p.count(), p.errs[len(p.errs)-1])
	}
	p.buyer.Progress(&driver.Error{Provider: p.market.provider, Op: "launch", Err: err})
}

// failure returns why nodes that are left have no machine.
func (p *Purchase[N]) failure() error {
	var err error
	switch all := distinct(p.errs); {
	case len(all) == 0 && p.isElsewhere():
		err = p.market.noRoomInNetwork()
	case len(all) == 0:
		err = p.market.TooFew()
	case len(all) > shownRefusals:
		err = &refusals{p.count(), all}
	default:
		err = errors.Join(all...)
	}
	if p.refused >= p.limit {
		err = &driver.Error{Provider: p.market.provider, Op: "launch", Err: err, Hint: fmt.Sprintf("Spec.MaxOffers is %d", p.limit)}
	}
	return err
}

// isElsewhere reports whether an offer was left out because of its network.
func (p *Purchase[N]) isElsewhere() bool {
	return slices.ContainsFunc(p.offers, func(o triedOffer) bool { return !o.refused && p.market.elsewhere(o.Offer) != "" })
}

// distinct returns the first error of each text.
func distinct(errs []error) []error {
	seen := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(errs), func(err error) bool {
		text := err.Error()
		again := seen[text]
		seen[text] = true
		return again
	})
}

// refusals are the errors of more offers than an error shows.
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
