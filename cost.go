package gputrain

import "time"

// A bill is what one machine costs, from its launch to its confirmed end.
type bill struct {
	id       string
	price    Price
	from, to time.Time
}

func (b *bill) usd() float64 {
	perHour, _ := b.price.USD() // what is not known is not counted
	to := b.to
	if to.IsZero() {
		to = now()
	}
	return perHour * to.Sub(b.from).Hours()
}

func (p *pool) costUSD() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	var sum float64
	for _, b := range p.bills {
		sum += b.usd()
	}
	return sum
}

// endBill stops counting a machine that is confirmed gone.
func (p *pool) endBill(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range p.bills {
		if b.id == id && b.to.IsZero() {
			b.to = now()
		}
	}
}
