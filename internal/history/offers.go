package history

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gputrain/gputrain/internal/private"
	"github.com/gputrain/gputrain/providers/driver"
)

const (
	// The offers of keptAnswers questions are kept, and none of more than maxAnswer bytes.
	keptAnswers, maxAnswer = 32, 4 << 20
	// Offers that are older than offersFor are not shown.
	offersFor = 7 * 24 * time.Hour
)

// An answer has the offers of a provider, and the time at which it gave them.
type answer struct {
	At     time.Time
	Offers []keptOffer
}

// A keptOffer has the price in a form that JSON keeps: null is an unknown one.
type keptOffer struct {
	driver.Offer
	HourlyUSD *float64
}

// answerPath returns the file for the answer to a question, which the name does not show.
func (b *Book) answerPath(question string) string {
	sum := sha256.Sum256([]byte(question))
	return filepath.Join(filepath.Dir(b.path), "offers", hex.EncodeToString(sum[:12])+".json")
}

// KeepOffers keeps what a provider has offered when it was asked a question.
func (b *Book) KeepOffers(question string, offers []driver.Offer) error {
	if b.path == "" {
		return nil
	}
	a := answer{At: time.Now()}
	for _, o := range offers {
		kept := keptOffer{Offer: o}
		if usd, known := o.HourlyUSD.USD(); known {
			kept.HourlyUSD = &usd
		}
		a.Offers = append(a.Offers, kept)
	}
	text, err := json.Marshal(a)
	if err != nil || len(text) > maxAnswer {
		return b.fail(err)
	}
	path := b.answerPath(question)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return b.fail(err)
	}
	if err := replace(path, text); err != nil {
		return b.fail(err)
	}
	return b.fail(dropOldest(filepath.Dir(path), keptAnswers))
}

// dropOldest removes files of a folder until so many are left.
func dropOldest(dir string, keep int) error {
	all, err := os.ReadDir(dir)
	if err != nil || len(all) <= keep {
		return err
	}
	age := func(e fs.DirEntry) time.Time {
		info, err := e.Info()
		if err != nil {
			return time.Time{} // it is gone
		}
		return info.ModTime()
	}
	slices.SortFunc(all, func(x, y fs.DirEntry) int { return cmp.Or(age(x).Compare(age(y)), cmp.Compare(x.Name(), y.Name())) })
	var errs []error
	for _, e := range all[:len(all)-keep] {
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// KeptOffers returns what a provider has offered when it was last asked a question, and when that was. Without an
// answer, or with one that is too old, there are none.
func (b *Book) KeptOffers(question string) (offers []driver.Offer, at time.Time) {
	if b.path == "" {
		return nil, time.Time{}
	}
	text, err := private.ReadFile(b.answerPath(question), maxAnswer)
	var a answer
	if err != nil || json.Unmarshal(text, &a) != nil || time.Since(a.At) >= offersFor {
		return nil, time.Time{}
	}
	for _, kept := range a.Offers {
		if kept.HourlyUSD != nil {
			kept.Offer.HourlyUSD = driver.USD(*kept.HourlyUSD)
		}
		offers = append(offers, kept.Offer)
	}
	return offers, a.At
}
