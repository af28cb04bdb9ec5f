package inspector

import (
	"cmp"
	"context"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/storage"
)

// Records is the data of the screen of records.
type Records struct {
	// Filter is the one of the request.
	Filter ListFilter `json:"filter"`
	// Counts are only on the first page.
	Counts []Count `json:"counts,omitempty"`
	// Unsettled is the number of results of this process that wait for the store.
	Unsettled int   `json:"unsettled"`
	Records   []Row `json:"records"`
	// LookedAt is how many records this page has looked at, and Next the cursor of the
	// next page, or empty.
	LookedAt int    `json:"lookedAt"`
	Next     string `json:"next,omitempty"`
	// Routes are the patterns that the filter may name.
	Routes []string      `json:"-"`
	Took   time.Duration `json:"-"`
	First  bool          `json:"-"`
	Empty  bool          `json:"-"` // the store has no records at all
}

// Count is the number of records in a state.
type Count struct {
	State string `json:"state"`
	Count int    `json:"count"`
	// AtLeast says that there may be more: not all records were looked at.
	AtLeast bool `json:"atLeast"`
}

// list shows records by a filter of the address.
func (p *Page) list(v visit) (screen, error) {
	query := v.URL.Query()
	filter, err := readFilter(query)
	if err != nil {
		return screen{}, err
	}
	limit, err := wholeNumber(query, "limit", pageSize, 1000)
	if err != nil {
		return screen{}, err
	}
	look, err := wholeNumber(query, "look", lookAt, lookAtMost)
	if err != nil {
		return screen{}, err
	}
	within, err := readWithin(v, query)
	if err != nil {
		return screen{}, err
	}
	v, end := v.within(within + checkWithin)
	defer end()
	begin := time.Now()
	found := &Records{Filter: filter, Unsettled: p.waiting(), Routes: p.patterns(recorded), First: !query.Has("cursor")}
	counted := make(chan []Count, 1)
	if found.First {
		go func() { counted <- p.count(v.Context(), within) }()
	} else {
		counted <- nil
	}
	stored := filter.filter()
	_, named := endpointNamed(p.engine, filter.Route)
	stored.Route = cmp.Or(named.Pattern, filter.Route) // records have the pattern
	listing, err := p.records.List(v.Context(), stored, storage.Page{Cursor: query.Get("cursor"), Limit: limit, LookAt: look, Within: within})
	found.Counts = <-counted
	if err != nil {
		return screen{}, p.listFault(v.Context(), err, query)
	}
	found.LookedAt, found.Next = listing.LookedAt, listing.Next
	found.Records = p.rows(listing.Entries, filter.State)
	found.recount()
	found.Empty = found.First && listing.Next == "" && len(found.Records) == 0 && !slices.ContainsFunc(found.Counts, func(c Count) bool { return c.Count > 0 || c.AtLeast })
	found.Took = time.Since(begin)
	return screen{name: "records", data: found}, nil
}

// recount takes the first page's own records for the counts of abandoned ones and of those
// in flight: where a store finds them by an index, the list knows more than the count.
func (r *Records) recount() {
	if len(r.Counts) == 0 || r.Filter != (ListFilter{State: openState}) {
		return
	}
	for i, state := range []string{abandonedState, "in_progress"} {
		n := 0
		for _, one := range r.Records {
			if one.State == state {
				n++
			}
		}
		r.Counts[i] = Count{State: state, Count: n, AtLeast: r.Next != ""}
	}
}

// listFault blames the cursor for an error of a list while the store is well.
func (p *Page) listFault(ctx context.Context, err error, query url.Values) error {
	if query.Get("cursor") != "" && p.engine.Ready(ctx) == nil {
		return fault(http.StatusBadRequest, "The place in the list is not known here", "The cursor is of another store or of another process. Begin with the first page.")
	}
	return err
}

// rows returns the entries in the order of urgency: abandoned ones, then the oldest in
// flight, then the latest of the others.
func (p *Page) rows(entries []storage.Entry, state string) []Row {
	rows := make([]Row, 0, len(entries))
	slowest, named := p.events.slowest(), endpointsOf(p.engine)
	for _, entry := range entries {
		one := rowIn(p.engine, named, entry.Key, entry.Record)
		if state == storage.InProgress.String() && one.State == abandonedState {
			continue
		}
		limit, known := slowest[one.Route]
		one.Slow = known && one.State == storage.InProgress.String() && !one.Created.IsZero() && time.Since(one.Created) > limit
		rows = append(rows, one)
	}
	asked := p.events.asked(rows)
	for i := range rows {
		rows[i].Requests = asked[rows[i].Record]
	}
	slices.SortStableFunc(rows, compareUrgency)
	return rows
}

// endpointsOf names each pattern of the engine's routes with the methods that they serve. Records
// have the pattern alone, and the patterns of chi and gin name no method.
func endpointsOf(engine *core.Engine) map[string]string {
	methods := make(map[string][]string)
	for _, route := range engine.Routes() {
		for _, e := range route.Endpoints() {
			if e.Pattern != "" && !slices.Contains(methods[e.Pattern], e.Method) {
				methods[e.Pattern] = append(methods[e.Pattern], e.Method)
			}
		}
	}
	named := make(map[string]string, len(methods))
	for pattern, all := range methods {
		slices.Sort(all)
		named[pattern] = core.Endpoint{Method: strings.Join(all, ", "), Pattern: pattern}.String()
	}
	return named
}

// rowIn returns a record's row, with the facts of its route. named is the result of endpointsOf.
func rowIn(engine *core.Engine, named map[string]string, id string, record *storage.Record) Row {
	one := rowOf(id, record)
	if endpoint := named[one.Route]; endpoint != one.Route {
		one.Endpoint = endpoint
	}
	if one.State == abandonedState {
		if route := routeOf(engine, one.Route); route != nil {
			one.OnAbandoned = route.Policy().OnAbandoned.String()
		}
	}
	return one
}

// endpointNamed returns the endpoint that a text names alone, or as the list shows its pattern,
// with all its methods. It returns no route if there is none.
func endpointNamed(engine *core.Engine, text string) (*core.Route, core.Endpoint) {
	shown := endpointsOf(engine)
	for _, route := range engine.Routes() {
		for _, e := range route.Endpoints() {
			if e.String() == text || e.Pattern != "" && shown[e.Pattern] == text {
				return route, e
			}
		}
	}
	return nil, core.Endpoint{}
}

// countedStates are the states that the page counts, in its order.
var countedStates = []string{abandonedState, "in_progress", "unreplayable", "failed", "completed"}

// count counts the records by state among the first ones of the store, for as long as the
// list looks. An error leaves the rest uncounted: the list that runs beside has the same
// error.
func (p *Page) count(ctx context.Context, within time.Duration) []Count {
	n, lookedAt, cursor, whole := make(map[string]int), 0, "", false
	for end := time.Now().Add(within); !whole && lookedAt < lookAt && time.Now().Before(end); {
		listing, err := p.records.List(ctx, storage.Filter{}, storage.Page{Cursor: cursor, Limit: 1000, LookAt: lookAt - lookedAt, Within: max(1, time.Until(end))})
		if err != nil {
			break
		}
		for _, entry := range listing.Entries {
			n[stateOf(entry.Record)]++
		}
		lookedAt, cursor = lookedAt+listing.LookedAt, listing.Next
		whole = cursor == ""
	}
	counts := make([]Count, 0, len(countedStates))
	for _, state := range countedStates {
		counts = append(counts, Count{State: state, Count: n[state], AtLeast: !whole})
	}
	return counts
}

// choices are the states of the filter.
func choices() []string {
	return []string{openState, abandonedState, "in_progress", "unreplayable", "failed", "completed", "released", "expired", allStates}
}

// without returns the address of a filter without one of its parts.
func without(f ListFilter, name string) template.URL {
	query := f.query()
	query.Del(name)
	if name == "state" {
		query.Set("state", allStates)
	}
	return template.URL(query.Encode()) //nolint:gosec // encoded just now
}

// nextPage returns the address of the next page.
func nextPage(r *Records) template.URL {
	query := r.Filter.query()
	query.Set("cursor", r.Next)
	return template.URL(query.Encode()) //nolint:gosec // encoded just now
}

// farPage returns the address of a next page that looks as far as a page may.
func farPage(r *Records) template.URL {
	query := r.Filter.query()
	query.Set("cursor", r.Next)
	query.Set("look", strconv.Itoa(lookAtMost))
	query.Set("within", maxWithin.String())
	return template.URL(query.Encode()) //nolint:gosec // encoded just now
}

// filterWords returns a filter as a person says it.
func filterWords(f ListFilter) string {
	words := "state " + stateName(f.State)
	if f.Route != "" {
		words += ", route " + f.Route
	}
	if f.Older != "" {
		words += ", older than " + f.Older
	}
	return words
}
