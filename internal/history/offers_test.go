package history_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/history"
	"github.com/gputrain/gputrain/providers/driver"
)

// Offers are kept as they were, by question, for a week.
func TestKeptOffers(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		b := history.In(dir)
		full := host
		full.HourlyUSD, full.Accelerator, full.Capabilities = driver.USD(0.25), accelerators.H100(accelerators.Count(2)), &driver.Capabilities{Adopts: true}
		full.Parts, full.Warnings = []driver.PricePart{{Name: "machine", HourlyUSD: 0.25}}, []string{"it is loud"}
		want := []driver.Offer{full, place}
		must(t, b.KeepOffers("who has an H100?", want))
		must(t, b.KeepOffers("who has nothing?", nil))
		kept := time.Now()
		time.Sleep(6 * 24 * time.Hour)
		if got, at := history.In(dir).KeptOffers("who has an H100?"); !reflect.DeepEqual(got, want) || !at.Equal(kept) {
			t.Errorf("%+v, %v\nwant %+v", got, at, want)
		}
		for _, question := range []string{"who has nothing?", "who was not asked?"} {
			if got, _ := b.KeptOffers(question); got != nil {
				t.Errorf("%s %+v", question, got)
			}
		}
		time.Sleep(24 * time.Hour)
		if got, _ := b.KeptOffers("who has an H100?"); got != nil {
			t.Errorf("after a week: %+v", got)
		}
	})
	none := history.In("")
	must(t, none.KeepOffers("q", []driver.Offer{host}))
	if got, _ := none.KeptOffers("q"); got != nil {
		t.Errorf("%+v", got)
	}
}

func TestKeptOffersAreFew(t *testing.T) {
	dir := t.TempDir()
	b := history.In(dir)
	for i := range 40 {
		must(t, b.KeepOffers(fmt.Sprint("question ", i), []driver.Offer{host}))
	}
	files, err := os.ReadDir(filepath.Join(dir, "offers"))
	must(t, err)
	if len(files) != 32 {
		t.Errorf("%d files", len(files))
	}
	if got, _ := b.KeptOffers("question 39"); got == nil {
		t.Error("the last answer is gone")
	}
	must(t, os.WriteFile(filepath.Join(dir, "offers", files[0].Name()), []byte("{"), 0o600)) // does no harm
	for i := range 40 {
		b.KeptOffers(fmt.Sprint("question ", i))
	}
}
