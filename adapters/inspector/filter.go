package inspector

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// ListFilter selects records.
type ListFilter struct {
	State string `json:"state"` // a state of storage, abandoned, open or all
	Route string `json:"route,omitempty"`
	Older string `json:"older,omitempty"` // such as 1m
	older time.Duration
}

// pageSize is the number of records on a page, and lookAt the number of records that a page
// looks at, unless the request names others. The first page for people comes soon; the
// others look for longer.
const (
	pageSize    = 100
	lookAt      = 20_000
	lookAtMost  = 1_000_000
	firstWithin = 100 * time.Millisecond
	thenWithin  = 2 * time.Second
	maxWithin   = 30 * time.Second
)

// readWithin returns the time after which a page stops looking.
func readWithin(v visit, query url.Values) (time.Duration, error) {
	switch {
	case query.Has("within"):
		within, err := time.ParseDuration(query.Get("within"))
		if err != nil || within <= 0 || within > maxWithin {
			return 0, fault(http.StatusBadRequest, "The filter cannot be read", fmt.Sprintf("within is %q: give a duration of at most %s, such as 2s.", query.Get("within"), maxWithin))
		}
		return within, nil
	case query.Has("cursor"), wantsJSON(v.Request):
		return thenWithin, nil
	default:
		return firstWithin, nil
	}
}

func readFilter(query url.Values) (f ListFilter, err error) {
	f = ListFilter{State: cmp.Or(query.Get("state"), openState), Route: query.Get("route"), Older: query.Get("older")}
	if f.Older != "" {
		if f.older, err = time.ParseDuration(f.Older); err != nil || f.older < 0 {
			return f, fault(http.StatusBadRequest, "The filter cannot be read", fmt.Sprintf("older is %q: give a duration such as 90s, 10m or 2h.", f.Older))
		}
	}
	if _, known := storage.ParseState(f.State); !known && f.State != openState && f.State != abandonedState && f.State != allStates {
		return f, fault(http.StatusBadRequest, "The filter cannot be read", fmt.Sprintf("state is %q: give abandoned, in_progress, completed, failed, unreplayable, released, expired, open or all.", f.State))
	}
	return f, nil
}

func wholeNumber(query url.Values, name string, standard, limit int) (int, error) {
	if !query.Has(name) {
		return standard, nil
	}
	n, err := strconv.Atoi(query.Get(name))
	if err != nil || n < 1 || n > limit {
		return 0, fault(http.StatusBadRequest, "The filter cannot be read", fmt.Sprintf("%s is %q: give a number from 1 to %d.", name, query.Get(name), limit))
	}
	return n, nil
}

// filter returns the store's filter.
func (f *ListFilter) filter() storage.Filter {
	filter := storage.Filter{Route: f.Route, OlderThan: f.older}
	switch state, known := storage.ParseState(f.State); {
	case f.State == abandonedState:
		filter.Abandoned = true
	case f.State == openState:
		filter.States = []storage.State{storage.InProgress}
	case known:
		filter.States = []storage.State{state}
	}
	return filter
}

// query returns the address of this filter.
func (f *ListFilter) query() url.Values {
	query := make(url.Values)
	for name, value := range map[string]string{"state": f.State, "route": f.Route, "older": f.Older} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query
}
