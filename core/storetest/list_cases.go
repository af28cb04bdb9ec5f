package storetest

import (
	"maps"
	"slices"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// listCases are about the filter and the budget of a list.
var listCases = []testCase{
	{
		name: "list by a filter",
		rule: "List returns the records that match every field of the filter, and no others. The zero filter matches all " +
			"records, tombstones too. Only a record in progress whose lease has ended is abandoned, and LeaseLeft says since when",
		test: func(f *fixture) {
			old := f.keysToFilter()
			began := time.Now()
			fresh := of(f.claim(), key(5))
			f.win(fresh, 1, false)
			age := 3 * f.unit
			f.lists("all", storage.Filter{}, old["abandoned"], old["elsewhere"], old["running"], old["finished"], fresh.Key)
			abandoned := f.listed(storage.Filter{Abandoned: true}, storage.Page{Limit: 100}, nil)
			wantKeys(f, "abandoned", abandoned, old["abandoned"], old["elsewhere"])
			for _, r := range abandoned {
				f.saysSinceWhen(r, 2*f.unit)
			}
			f.lists("in two states", storage.Filter{States: []storage.State{storage.InProgress, storage.Completed}},
				old["abandoned"], old["elsewhere"], old["running"], old["finished"], fresh.Key)
			f.lists("of a route", storage.Filter{Route: otherRoute}, old["elsewhere"])
			f.lists("abandoned, of a route", storage.Filter{Abandoned: true, Route: origin.Route}, old["abandoned"])
			f.lists("finished, of a route", storage.Filter{States: []storage.State{storage.Completed}, Route: otherRoute})
			f.lists("abandoned, and old", storage.Filter{Abandoned: true, OlderThan: age}, old["abandoned"], old["elsewhere"])
			found := f.listed(storage.Filter{OlderThan: age}, storage.Page{Limit: 100}, nil)
			if time.Since(began) < age { // otherwise the fresh key has grown old too
				wantKeys(f, "old", found, old["abandoned"], old["elsewhere"], old["running"], old["finished"])
			}
		},
	},
	{
		name: "list tombstones by a filter",
		rule: "a tombstone has neither a route nor a time of creation: it is old, and of no route. An abandoned key that has " +
			"become a tombstone is not abandoned",
		test: func(f *fixture) {
			c := f.shortClaim()
			c.Retain, c.Remember = f.unit, f.long()
			f.win(c, 1, false)
			f.wait(2 * f.unit)
			f.lists("all", storage.Filter{}, c.Key)
			f.lists("old", storage.Filter{OlderThan: f.long()}, c.Key)
			f.lists("expired, and old", storage.Filter{States: []storage.State{storage.Expired}, OlderThan: time.Hour}, c.Key)
			f.lists("of its route", storage.Filter{Route: c.Origin.Route})
			f.lists("abandoned", storage.Filter{Abandoned: true})
		},
	},
	{
		name: "list within a budget",
		rule: "List stops after LookAt records, or a few more, and says how many it has looked at. However small the budget is, " +
			"List advances, and the pages together find all records",
		test: func(f *fixture) {
			const keys, lookAt = 150, 50
			f.spread(keys, func(n int) error { return f.claimsOnce(key(n)) })
			c := of(f.claim(), key(keys))
			f.win(c, 1, false)
			for _, page := range []storage.Page{{Limit: 100, LookAt: lookAt}, {Limit: 1, LookAt: 1}, {Limit: 10, Within: 1}} {
				looked, found := 0, map[string]bool{}
				for calls := 0; ; calls++ {
					l := f.listing(storage.Filter{States: []storage.State{storage.InProgress}}, page)
					looked += l.LookedAt
					for _, entry := range l.Entries {
						found[entry.Key] = true
					}
					if calls > 100*keys { // a call may look at values of others, which do not count
						f.Fatalf("%+v: the list has no end", page)
					}
					if page.LookAt > 0 && l.LookedAt > page.LookAt+lookAt {
						f.Fatalf("a call with LookAt %d has looked at %d records", page.LookAt, l.LookedAt)
					}
					if page.Cursor = l.Next; l.Next == "" {
						break
					}
				}
				if !found[c.Key] || len(found) != 1 || looked < keys+1 || looked > 2*keys {
					f.Errorf("%+v: %d records are found, after a look at %d of %d", page, len(found), looked, keys+1)
				}
			}
		},
	},
}

const otherRoute = "GET /elsewhere"

// keysToFilter makes records, of which those by shortClaim are abandoned, and lets
// time pass.
func (f *fixture) keysToFilter() map[string]string {
	keys := map[string]string{"abandoned": key(1), "elsewhere": key(2), "running": key(3), "finished": key(4)}
	c := f.shortClaim()
	f.win(c, 1, false)
	c.Key, c.Origin.Route = keys["elsewhere"], otherRoute
	f.win(c, 1, false)
	c = f.claim()
	c.Key = keys["running"]
	f.win(c, 1, false)
	c.Key = keys["finished"]
	lease := f.win(c, 1, false)
	f.complete(lease, f.result(lease))
	f.wait(4 * f.unit)
	return keys
}

// lists expects the keys that match a filter, in one page and in pages of one.
func (f *fixture) lists(name string, filter storage.Filter, want ...string) {
	f.Helper()
	for _, limit := range []int{100, 1} {
		wantKeys(f, name, f.listed(filter, storage.Page{Limit: limit}, nil), want...)
	}
}

func wantKeys(f *fixture, name string, found map[string]*storage.Record, want ...string) {
	f.Helper()
	if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		f.Errorf("the records %s are %v, want %v", name, got, want)
	}
}

// listed follows the cursor to the end, and calls between after each page. between may
// be nil.
func (f *fixture) listed(filter storage.Filter, page storage.Page, between func()) map[string]*storage.Record {
	f.Helper()
	listed := map[string]*storage.Record{}
	for {
		l := f.listing(filter, page)
		for _, entry := range l.Entries {
			listed[entry.Key] = entry.Record
		}
		if page.Cursor = l.Next; l.Next == "" {
			return listed
		}
		if between != nil {
			between()
		}
	}
}

// listing expects a page that keeps to its limit.
func (f *fixture) listing(filter storage.Filter, page storage.Page) storage.Listing {
	f.Helper()
	l, err := f.inspector().List(f.Context(), filter, page)
	if err != nil {
		f.Fatalf("List: %v", err)
	}
	if len(l.Entries) > page.Limit {
		f.Fatalf("List with limit %d returned %d records", page.Limit, len(l.Entries))
	}
	return l
}
