package providertest

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/sim"
)

// flaws are drivers with one flaw each, which the suite must find.
var flaws = []flaw{
	{name: "calls before Open", check: "open contacts nothing before", says: "before Open",
		named: func(p provider) {
			if d, err := p.Config.Open(context.Background()); err == nil {
				d.Close()
			}
		}},
	{name: "a missing key is no ErrAuth", check: "open without a key", says: "not authorized",
		opened: func(_ provider, err error) error {
			if err != nil {
				return &driver.Error{Provider: "sim", Op: "open", Err: errors.New("Config.Token is empty")}
			}
			return nil
		}},
	{name: "a wrong key is printed", check: "open with a wrong key", says: "has a secret in it",
		opened: func(p provider, err error) error {
			if err != nil {
				return &driver.Error{Provider: "sim", Op: "open", Kind: driver.ErrAuth, Err: errors.New("want sk-sim-test")}
			}
			return nil
		}},
	{name: "config changed", check: "open leaves the config as it is", says: "it was changed",
		opened: func(p provider, err error) error { p.Regions[0] = "sim-west"; return err }},
	{name: "capabilities change", check: "capabilities never change", says: "never changes",
		driver: func(d providertestDriver) driver.Driver { return &changes{providertestDriver: d} }},

	{name: "offer duplicated", check: "offers are unique", says: "twice",
		driver: editedOffers(func(o driver.Offer) []driver.Offer { return []driver.Offer{o, o} })},
	{name: "price zero for unknown", check: "offers of no known price", says: "never 0",
		driver: editedOffers(func(o driver.Offer) []driver.Offer {
			usd, _ := o.HourlyUSD.USD()
			o.HourlyUSD = driver.USD(usd)
			return []driver.Offer{o}
		})},
	{name: "offers at no price", check: "offers are priced in USD per hour", says: "never 0",
		driver: editedOffers(func(o driver.Offer) []driver.Offer { o.HourlyUSD = driver.USD(0); return []driver.Offer{o} })},
	{name: "parts that are not the price", check: "offers are priced in USD per hour", says: "sum of its parts",
		driver: editedOffers(func(o driver.Offer) []driver.Offer {
			o.Parts = []driver.PricePart{{Name: "machine", HourlyUSD: 0.1}, {Name: "disk", HourlyUSD: 0.01}}
			return []driver.Offer{o}
		})},
	{name: "parts of one name", check: "offers are priced in USD per hour", says: "name of its own",
		driver: editedOffers(func(o driver.Offer) []driver.Offer {
			usd, _ := o.HourlyUSD.USD()
			o.Parts = []driver.PricePart{{Name: "machine", HourlyUSD: usd}, {Name: "machine"}}
			return []driver.Offer{o}
		})},
	{name: "a country by its name", check: "offers name their country", says: "two capital letters",
		driver: editedOffers(func(o driver.Offer) []driver.Offer { o.Country = "Norway"; return []driver.Offer{o} })},
	{name: "a filter that knows no countries", check: "offers name their country", says: "Query.Allows",
		driver: func(d providertestDriver) driver.Driver {
			return offers{d, func(ctx context.Context, s driver.Query) iter.Seq2[driver.Offer, error] {
				return func(yield func(driver.Offer, error) bool) {
					for o, err := range d.Offers(ctx, s) {
						if (s.Regions == nil || slices.Contains(s.Regions, o.Region)) && !yield(o, err) {
							return
						}
					}
				}
			}}
		}},
	{name: "money in cents", check: "the account's money is known", says: "and the account has",
		driver: func(d providertestDriver) driver.Driver { return tells{d, 100, 0} }},
	{name: "a quota that counts all", check: "the account's quota is known", says: "may have 2 more",
		driver: func(d providertestDriver) driver.Driver { return tells{d, 1, 1} }},
	{name: "no money is no quota", check: "a launch without money says so", says: "Driver.Launch without money",
		driver: func(d providertestDriver) driver.Driver {
			return launches{d, func(ctx context.Context, r driver.Launch) ([]driver.Instance, error) {
				got, err := d.Launch(ctx, r)
				if e, ok := errors.AsType[*driver.Error](err); ok && errors.Is(err, driver.ErrBalance) {
					e.Kind = driver.ErrQuota
				}
				return got, err
			}}
		}},
	{name: "the user's tags are forgotten", check: "launch with the user's tags", says: "PoolInfo.Tags has team=vision",
		driver: func(d providertestDriver) driver.Driver {
			return launches{d, func(ctx context.Context, r driver.Launch) ([]driver.Instance, error) {
				r.Pool.Tags = nil
				return d.Launch(ctx, r)
			}}
		}},
	{name: "a filter that wants a name", check: "offers keep what satisfies a spec without names", says: "leaves out",
		driver: func(d providertestDriver) driver.Driver {
			return offers{d, func(ctx context.Context, s driver.Query) iter.Seq2[driver.Offer, error] {
				if s.Accelerator.Name == "" && !s.Accelerator.IsZero() {
					return func(func(driver.Offer, error) bool) {}
				}
				return editedOffers(withAccelerator)(d).Offers(ctx, s)
			}}
		}},
	{name: "a filter that knows no range", check: "offers keep what satisfies a spec without names", says: "leaves out",
		driver: func(d providertestDriver) driver.Driver {
			return offers{d, func(ctx context.Context, s driver.Query) iter.Seq2[driver.Offer, error] {
				if s.Accelerator.MaxCount > s.Accelerator.Count {
					return func(func(driver.Offer, error) bool) {}
				}
				return editedOffers(withAccelerator)(d).Offers(ctx, s)
			}}
		}},
	{name: "a filter that drops too much", check: "offers keep what satisfies the spec", says: "leaves out",
		driver: func(d providertestDriver) driver.Driver {
			return offers{d, func(ctx context.Context, s driver.Query) iter.Seq2[driver.Offer, error] {
				return func(yield func(driver.Offer, error) bool) {
					for o, err := range d.Offers(ctx, s) {
						if (s.VCPUs == 0 || o.VCPUs > s.VCPUs) && !yield(o, err) {
							return
						}
					}
				}
			}}
		}},
	{name: "offers not lazy", check: "offers are lazy", says: "before a loop ranges",
		driver: func(d providertestDriver) driver.Driver {
			return offers{d, func(ctx context.Context, s driver.Query) iter.Seq2[driver.Offer, error] {
				for range d.Offers(ctx, s) {
				}
				return d.Offers(ctx, s)
			}}
		}},

	{name: "all pages read for the first offer", check: "offers are paged no further than needed", says: "stops paging",
		driver: func(d providertestDriver) driver.Driver {
			return offers{d, func(ctx context.Context, s driver.Query) iter.Seq2[driver.Offer, error] {
				return func(yield func(driver.Offer, error) bool) {
					var all []driver.Offer
					for o := range d.Offers(ctx, s) {
						all = append(all, o)
					}
					for _, o := range all {
						if !yield(o, nil) {
							return
						}
					}
				}
			}}
		}},

	{name: "private addresses that lead nowhere", check: "launch of three", says: "by which the others reach it",
		driver: editedInstances(func(got []driver.Instance) []driver.Instance {
			for i := range got {
				got[i].PrivateAddr = "127.0.0.1"
			}
			return got
		})},
	{name: "host keys forgotten", check: "launch of three", says: "Endpoint.HostKeys",
		driver: editedInstances(func(got []driver.Instance) []driver.Instance {
			for i := range got {
				got[i].SSH.HostKeys = nil
			}
			return got
		})},
	{name: "machines beside an error forgotten", check: "launch of more than there is room for", says: "machines and an error",
		driver: editedLaunch(func(ctx context.Context, d providertestDriver, r driver.Launch) ([]driver.Instance, error) {
			got, err := d.Launch(ctx, r)
			if err != nil {
				return nil, err
			}
			return got, nil
		})},
	{name: "launch goes on without its caller", check: "launch after the caller has given up", says: "the context had ended before",
		driver: editedLaunch(func(ctx context.Context, d providertestDriver, r driver.Launch) ([]driver.Instance, error) {
			got, _ := d.Launch(context.WithoutCancel(ctx), r)
			return got, ctx.Err()
		})},
	{name: "tag forgotten", check: "tags round trip", says: "tags of the create call",
		driver: editedLaunch(func(ctx context.Context, d providertestDriver, r driver.Launch) ([]driver.Instance, error) {
			r.Pool.Owner = ""
			return d.Launch(ctx, r)
		})},
	{name: "create repeated", check: "ambiguous launch: cut after it was done", says: "made twice",
		driver: editedLaunch(func(ctx context.Context, d providertestDriver, r driver.Launch) ([]driver.Instance, error) {
			got, err := hasty(ctx, d, r)
			if err != nil {
				return d.Launch(ctx, r)
			}
			return got, nil
		})},
	{name: "an internal error taken for no answer", check: "ambiguous launch: failed before it was done", says: "its error reports no answer",
		driver: editedLaunch(func(ctx context.Context, d providertestDriver, r driver.Launch) ([]driver.Instance, error) {
			got, err := d.Launch(ctx, r)
			if err != nil {
				err = &driver.Error{Provider: "sim", Op: "launch", Kind: driver.ErrUnavailable, Err: errors.New(err.Error())}
			}
			return got, err
		})},
	{name: "nothing adopted", check: "ambiguous launch: failed after it was done", says: "which exist too",
		driver: editedLaunch(hasty)},
	{name: "nothing adopted where a list fails once", check: "ambiguous launch: cut after it was done, and a list that fails", says: "which exist too",
		driver: editedLaunch(hasty)},
	{name: "an ambiguous answer taken for a no", check: "ambiguous launch: failed before it was done", says: "must be one of",
		driver: editedLaunch(func(ctx context.Context, d providertestDriver, r driver.Launch) ([]driver.Instance, error) {
			got, err := d.Launch(ctx, r)
			if err != nil {
				err = &driver.Error{Provider: "sim", Op: "launch", Kind: driver.ErrNoCapacity}
			}
			return got, err
		})},
	{name: "a limit without its kind", check: "launch that is rate limited", says: "must be one of",
		driver: editedLaunch(func(ctx context.Context, d providertestDriver, r driver.Launch) ([]driver.Instance, error) {
			got, err := d.Launch(ctx, r)
			if err != nil {
				err = &driver.Error{Provider: "sim", Op: "launch", Kind: driver.ErrUnavailable}
			}
			return got, err
		})},

	{name: "a state mapped wrongly", check: "states of the vendor", says: "must be preempted",
		driver: editedInstances(func(got []driver.Instance) []driver.Instance {
			for i := range got {
				if got[i].State == driver.InstancePreempted {
					got[i].State = driver.InstanceFailed
				}
			}
			return got
		})},
	{name: "an unknown state taken for the end", check: unknownStates, says: "must be unknown",
		driver: editedInstances(func(got []driver.Instance) []driver.Instance {
			for i := range got {
				if got[i].State == driver.InstanceUnknown {
					got[i].State = driver.InstanceTerminated
				}
			}
			return got
		})},
	{name: "begun hours are counted, and the cloud bills seconds", check: "the bill of a plain life", says: "and the cloud charges",
		driver: launchedAs(func(o driver.Offer) driver.Offer { o.BillingUnit = time.Hour; return o })},
	{name: "a failed boot counts as free, and the cloud bills it", check: "the bill of a failed boot", says: "and the cloud charges",
		driver: launchedAs(func(o driver.Offer) driver.Offer { o.Billing.AfterLaunch = true; return o })},
	{name: "a machine that boots counts as free, and the cloud bills it", check: "the bill of what is ended while it boots", says: "and the cloud charges",
		driver: launchedAs(func(o driver.Offer) driver.Offer { o.Billing.AfterLaunch = true; return o })},
	{name: "a price of another hour", check: "the bill of an early end", says: "and the cloud charges",
		driver: launchedAs(func(o driver.Offer) driver.Offer { o.HourlyUSD = driver.USD(2); return o })},
	{name: "what is gone left out", check: "describe reports what is gone", says: "leaves out none",
		driver: editedInstances(func(got []driver.Instance) []driver.Instance {
			return slices.DeleteFunc(got, func(in driver.Instance) bool { return in.State == driver.InstanceTerminated })
		})},
	{name: "order lost", check: "describe keeps order and leaves out nothing", says: "in their order",
		driver: editedInstances(func(got []driver.Instance) []driver.Instance {
			slices.SortFunc(got, func(a, b driver.Instance) int { return strings.Compare(a.ID, b.ID) })
			return got
		})},
	{name: "known to its program alone", check: "describe by another program", says: "by another program",
		driver: func(d providertestDriver) driver.Driver {
			launched := map[string]bool{}
			return describes{providertestDriver{launches{d, func(ctx context.Context, r driver.Launch) ([]driver.Instance, error) {
				got, err := d.Launch(ctx, r)
				for _, in := range got {
					launched[in.ID] = true
				}
				return got, err
			}}, d.cloud}, func(ctx context.Context, ids ...string) ([]driver.Instance, error) {
				got, err := d.Describe(ctx, ids...)
				for i := range got {
					if !launched[got[i].ID] {
						got[i].Rank = 0
					}
				}
				return got, err
			}}
		}},

	{name: "terminate not idempotent", check: "terminate twice, and what is gone", says: "is idempotent",
		driver: func(d providertestDriver) driver.Driver {
			return terminates{d, func(ctx context.Context, ids ...string) error {
				now, err := d.Describe(ctx, ids...)
				for _, in := range now {
					if in.State == driver.InstanceTerminated {
						err = errors.New("no such machine")
					}
				}
				return errors.Join(err, d.Terminate(ctx, ids...))
			}}
		}},
	{name: "terminate waits for machines to run", check: "terminate while pending", says: "of a pending machine",
		driver: func(d providertestDriver) driver.Driver {
			return terminates{d, func(ctx context.Context, ids ...string) error {
				now, err := d.Describe(ctx, ids...)
				for _, in := range now {
					if in.State == driver.InstancePending && in.SSH.Addr == "" {
						return errors.New("it does not run yet")
					}
				}
				return errors.Join(err, d.Terminate(ctx, ids...))
			}}
		}},
	{name: "terminate of nothing ends all", check: "terminate only what is named", says: "Terminate of nothing",
		driver: func(d providertestDriver) driver.Driver {
			return terminates{d, func(ctx context.Context, ids ...string) error {
				for _, in := range d.cloud.Machines("") {
					if len(ids) == 0 {
						d.Terminate(ctx, in.ID)
					}
				}
				return d.Terminate(ctx, ids...)
			}}
		}},
	{name: "terminate says yes", check: "terminate: failed before it was done", says: "has said that the machine is gone",
		driver: func(d providertestDriver) driver.Driver {
			return terminates{d, func(ctx context.Context, ids ...string) error { d.Terminate(ctx, ids...); return nil }}
		}},
	{name: "terminate gives up", check: "terminate that never goes through", says: "has said that the machine is gone",
		driver: func(d providertestDriver) driver.Driver {
			return terminates{d, func(ctx context.Context, ids ...string) error {
				for range 5 {
					if d.Terminate(ctx, ids...) == nil {
						break
					}
				}
				return nil
			}}
		}},
	{name: "terminate fails without saying how", check: "terminate: cut after it was done", says: "is a *gputrain.Error",
		driver: func(d providertestDriver) driver.Driver {
			return terminates{d, func(ctx context.Context, ids ...string) error {
				if d.Terminate(ctx, ids...) != nil {
					return errors.New("no answer")
				}
				return nil
			}}
		}},

	{name: "list of what is gone", check: "list forgets what is gone", says: "after Terminate",
		driver: func(d providertestDriver) driver.Driver {
			return lists{d, func(ctx context.Context, pool string) ([]driver.Resource, error) {
				got, err := d.List(ctx, pool)
				for _, in := range d.cloud.Machines(pool) {
					got = append(got, driver.Resource{Provider: "sim", Kind: "machine", ID: in.ID, Pool: pool, State: driver.InstanceRunning})
				}
				return got, err
			}}
		}},
	{name: "list shows what is foreign", check: "list shows only ours", says: "another user's",
		driver: func(d providertestDriver) driver.Driver {
			return lists{d, func(ctx context.Context, pool string) ([]driver.Resource, error) {
				got, err := d.List(ctx, pool)
				for _, r := range d.cloud.Live() {
					if r.Pool == foreignPool && pool == "" {
						got = append(got, r)
					}
				}
				return got, err
			}}
		}},
	{name: "list by the beginning of the ID", check: "list of one pool shows no other", says: "Driver.List of",
		driver: func(d providertestDriver) driver.Driver {
			return lists{d, func(ctx context.Context, pool string) ([]driver.Resource, error) {
				got, err := d.List(ctx, "")
				return slices.DeleteFunc(got, func(r driver.Resource) bool { return !strings.HasPrefix(r.Pool, pool) }), err
			}}
		}},
	{name: "list of machines only", check: "list shows everything that was made", says: "are not in it",
		driver: func(d providertestDriver) driver.Driver {
			return lists{d, func(ctx context.Context, pool string) ([]driver.Resource, error) {
				got, err := d.List(ctx, pool)
				return slices.DeleteFunc(got, func(r driver.Resource) bool { return r.Kind != "machine" }), err
			}}
		}},
	{name: "a failed list is empty", check: "read that is never answered well: html", says: "taken for a success",
		driver: func(d providertestDriver) driver.Driver {
			return lists{d, func(ctx context.Context, pool string) ([]driver.Resource, error) {
				got, _ := d.List(ctx, pool)
				return got, nil
			}}
		}},
	{name: "a bare error", check: "read that is never answered well: failed", says: "is a *gputrain.Error",
		driver: func(d providertestDriver) driver.Driver {
			return lists{d, func(ctx context.Context, pool string) ([]driver.Resource, error) {
				got, err := d.List(ctx, pool)
				if err != nil {
					err = errors.New("no answer")
				}
				return got, err
			}}
		}},
	{name: "a redirect followed with the key", check: "calls that are redirected to another server", says: "a credential is for the API's own server alone",
		driver: func(d providertestDriver) driver.Driver {
			return lists{d, func(ctx context.Context, pool string) ([]driver.Resource, error) {
				got, err := d.List(ctx, pool)
				if to, led := leadsTo.Load(d.cloud); led && err != nil {
					req, _ := http.NewRequestWithContext(ctx, "GET", to.(string), nil)
					req.Header.Set("Authorization", "Bearer "+token)
					client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
					if resp, failed := client.Do(req); failed == nil {
						resp.Body.Close()
					}
				}
				return got, err
			}}
		}},
	{name: "a redirect taken for an answer", check: "calls that are redirected to another server", says: "must be one of",
		driver: func(d providertestDriver) driver.Driver {
			return lists{d, func(ctx context.Context, pool string) ([]driver.Resource, error) {
				got, _ := d.List(ctx, pool)
				return got, nil
			}}
		}},
	{name: "reads not repeated", check: "read that is answered well the second time: unavailable", says: "safe to repeat",
		driver: func(d providertestDriver) driver.Driver { return d.simDriver.(patient).simDriver }},
	{name: "Retry-After ignored", check: "read that waits for Retry-After", says: "Retry-After said",
		driver: func(d providertestDriver) driver.Driver {
			plain := d.simDriver.(patient).simDriver
			return lists{d, func(ctx context.Context, pool string) ([]driver.Resource, error) {
				got, err := plain.List(ctx, pool)
				if err != nil {
					return plain.List(ctx, pool)
				}
				return got, nil
			}}
		}},

	{name: "made and not recorded", check: "prepare records before it makes", says: "was not called",
		driver: func(d providertestDriver) driver.Driver {
			return prepares{d, func(ctx context.Context, p driver.PoolInfo) error { return d.Prepare(ctx, p.WithRecord(nil)) }}
		}},
	{name: "made and then recorded", check: "prepare records before it makes", says: "exists already",
		driver: func(d providertestDriver) driver.Driver {
			return prepares{d, func(ctx context.Context, p driver.PoolInfo) error {
				return errors.Join(d.Prepare(ctx, p.WithRecord(nil)), d.Prepare(ctx, p))
			}}
		}},
	{name: "made although it could not be recorded", check: "prepare makes nothing that is not recorded", says: "nothing may be made",
		driver: func(d providertestDriver) driver.Driver {
			return prepares{d, func(ctx context.Context, p driver.PoolInfo) error {
				err := d.Prepare(ctx, p)
				if err != nil && !errors.Is(err, driver.ErrUnavailable) {
					d.Prepare(ctx, p.WithRecord(nil))
				}
				return err
			}}
		}},
	{name: "prepare makes anew each time", check: "prepare twice makes once", says: "one call made",
		driver: func(d providertestDriver) driver.Driver {
			return prepares{d, func(ctx context.Context, p driver.PoolInfo) error {
				if len(p.Made) > 0 {
					p.ID += "-again"
				}
				return d.Prepare(ctx, p)
			}}
		}},
	{name: "a prepare that was cut short is not recorded", check: "prepare: cut after it was done", says: "was not called with",
		driver: func(d providertestDriver) driver.Driver {
			return prepares{d, func(ctx context.Context, p driver.PoolInfo) error { return d.Prepare(ctx, p.WithRecord(nil)) }}
		}},
	{name: "a release that failed says yes", check: "release: failed before it was done", says: "succeeded, but left",
		driver: func(d providertestDriver) driver.Driver {
			return releases{d, func(ctx context.Context, p driver.PoolInfo) error { d.Release(ctx, p); return nil }}
		}},
	{name: "release removes what is foreign", check: "release removes exactly what prepare made", says: "another user's",
		driver: func(d providertestDriver) driver.Driver {
			return releases{d, func(ctx context.Context, p driver.PoolInfo) error {
				other, err := sim.Config{Cloud: d.cloud, Token: token, Account: foreignPool}.Open(ctx)
				if err == nil {
					other.Release(ctx, driver.PoolInfo{ID: foreignPool})
				}
				return errors.Join(err, d.Release(ctx, p))
			}}
		}},
	{name: "release leaves things", check: "release removes exactly what prepare made", says: "which Prepare made",
		driver: func(d providertestDriver) driver.Driver {
			return releases{d, func(context.Context, driver.PoolInfo) error { return nil }}
		}},
	{name: "release of nothing fails", check: "release twice, and without prepare", says: "is idempotent",
		driver: func(d providertestDriver) driver.Driver {
			return releases{d, func(ctx context.Context, p driver.PoolInfo) error {
				held, err := d.List(ctx, p.ID)
				if len(held) == 0 {
					err = errors.New("there is no such network")
				}
				return errors.Join(err, d.Release(ctx, p))
			}}
		}},

	{name: "a call outlives its context", check: "cancel in the midst of describe", says: "goes on",
		driver: func(d providertestDriver) driver.Driver {
			return describes{d, func(ctx context.Context, ids ...string) ([]driver.Instance, error) {
				return d.Describe(context.WithoutCancel(ctx), ids...)
			}}
		}},
	{name: "a launch outlives its context", check: "cancel a launch that has made machines", says: "goes on",
		driver: editedLaunch(func(ctx context.Context, d providertestDriver, r driver.Launch) ([]driver.Instance, error) {
			return d.Launch(context.WithoutCancel(ctx), r)
		})},
	{name: "a cancelled call is a success", check: "cancel in the midst of terminate", says: "is context.Canceled",
		driver: func(d providertestDriver) driver.Driver {
			return terminates{d, func(ctx context.Context, ids ...string) error { d.Terminate(ctx, ids...); return nil }}
		}},
	{name: "dial of another server", check: "dial of what is gone", says: "taken for a success",
		driver: func(d providertestDriver) driver.Driver { return dials{d} }},
	{name: "resume fails for what is gone", check: "resume of what runs, and of what is gone", says: "is idempotent",
		driver: func(d providertestDriver) driver.Driver { return resumes{d} }},
	{name: "text that is no shell's", check: "shell text for machines", says: "not a script for a POSIX shell",
		driver: func(d providertestDriver) driver.Driver { return ends{d} }},
	{name: "lease not noted", check: "lease that is marked", says: "LeaseUntil",
		driver: func(d providertestDriver) driver.Driver { return marks{d} }},
	{name: "key printed", check: "keys are never printed", says: "has a secret in it",
		driver: func(d providertestDriver) driver.Driver { return prints{d, token} }},
	{name: "key in an error", check: "keys are never in errors", says: "has a secret in it",
		driver: func(d providertestDriver) driver.Driver {
			return lists{d, func(ctx context.Context, pool string) ([]driver.Resource, error) {
				got, err := d.List(ctx, pool)
				if err != nil {
					err = &driver.Error{Provider: "sim", Op: "list", Err: errors.Join(errors.New("Authorization: Bearer "+token), err)}
				}
				return got, err
			}}
		}},
	{name: "no room for two calls at a time", check: "parallel use", says: "at the same time",
		driver: func(d providertestDriver) driver.Driver {
			var busy atomic.Bool
			return launches{d, func(ctx context.Context, r driver.Launch) ([]driver.Instance, error) {
				if !busy.CompareAndSwap(false, true) {
					return nil, errors.New("busy")
				}
				defer busy.Store(false)
				time.Sleep(time.Millisecond)
				return d.Launch(ctx, r)
			}}
		}},
	{name: "goroutine left", check: "no goroutine is left", says: "itself holds; left",
		driver: func(d providertestDriver) driver.Driver { return closes{d} }},
	{name: "a pool's things left", check: "end to end with a command on each node", says: "after Compute.Close",
		driver: func(d providertestDriver) driver.Driver {
			return releases{d, func(context.Context, driver.PoolInfo) error { return nil }}
		}},
	{name: "an idle driver", check: "terminate and release leave silence", says: "its SSH server answers",
		driver: func(d providertestDriver) driver.Driver { return &idle{providertestDriver: d} }},
	{name: "an idle driver leaves machines", check: "terminate and release leave silence", says: "want 0",
		driver: func(d providertestDriver) driver.Driver { return &idle{providertestDriver: d} }},
	{name: "an idle driver closes a pool", check: "end to end with a command on each node", says: "after Compute.Close, by Harness.Live",
		driver: func(d providertestDriver) driver.Driver { return &idle{providertestDriver: d} }},
	{name: "machines that are made up", check: "terminate and release leave silence", says: "no SSH server answers there",
		driver: func(d providertestDriver) driver.Driver { return &inventor{providertestDriver: d} }},
}

// withAccelerator is an offer with two devices.
func withAccelerator(o driver.Offer) []driver.Offer {
	o.Accelerator = accelerators.L4(accelerators.Count(2), accelerators.Memory(24))
	return []driver.Offer{o}
}
