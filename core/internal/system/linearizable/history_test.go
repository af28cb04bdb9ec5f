package linearizable

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/oncekey/oncekey/core/storage"
)

const (
	keys           = 24
	callersPerKey  = 4
	livesPerCaller = 5
	// lasting is the time of a lease that outlasts every test.
	lasting = 24 * time.Hour
	// patience is the deadline of a call that should end before it.
	patience = time.Minute
	// searchDeadline bounds the search for an order, which takes milliseconds.
	searchDeadline = time.Minute
)

// load describes the callers.
type load struct {
	// short mixes short leases with lasting ones.
	short bool
	// hurry bounds the deadline of an impatient call. Zero: no impatient calls.
	hurry time.Duration
}

var loads = map[string]load{
	"lasting leases":            {},
	"lasting leases, in a rush": {hurry: 300 * time.Microsecond},
	"short leases":              {short: true},
	"short leases, in a rush":   {short: true, hurry: 300 * time.Microsecond},
}

// examine runs callers on the store, and returns an error if their results contradict
// each other. The seed chooses the calls; their interleaving is random.
func examine(ctx context.Context, store storage.Store, load load, seed uint64) error {
	histories := make([]*history, keys)
	var callers sync.WaitGroup
	for n := range histories {
		key := storage.Key("", "", "", storage.NewToken().String())
		h := &history{ctx: ctx, store: store, load: load, key: key, start: time.Now()}
		histories[n] = h
		for id := range callersPerKey {
			callers.Go(func() {
				c := caller{history: h, id: id, random: rand.New(rand.NewPCG(seed, uint64(n*callersPerKey+id)))}
				for range livesPerCaller {
					c.live()
				}
			})
		}
	}
	callers.Wait()
	var failures []error
	for _, h := range histories {
		(&caller{history: h, id: callersPerKey}).look()
		failures = append(failures, h.check())
	}
	return errors.Join(failures...)
}

// history has the calls for one key.
type history struct {
	ctx   context.Context // the test's
	store storage.Store
	load  load
	key   string
	start time.Time

	mutex    sync.Mutex
	calls    []porcupine.Operation
	failures []error
}

// check looks for an order of the calls that the contract allows.
func (h *history) check() error {
	if len(h.failures) > 0 {
		return errors.Join(h.failures...)
	}
	switch porcupine.CheckOperationsTimeout(model, h.calls, searchDeadline) {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return fmt.Errorf("no verdict on %d calls within %s", len(h.calls), searchDeadline)
	default:
		return fmt.Errorf("no order of these calls is allowed:\n%s", h)
	}
}

// String lists the calls in the order of their start.
func (h *history) String() string {
	var text strings.Builder
	slices.SortFunc(h.calls, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	for _, o := range h.calls {
		answered := time.Duration(o.Return).String()
		if o.Return == math.MaxInt64 {
			answered = "for ever"
		}
		fmt.Fprintf(&text, "caller %d, %s to %s: %s: %s\n", o.ClientId, time.Duration(o.Call), answered, o.Input, o.Output)
	}
	return text.String()
}

func (h *history) record(caller int, c call, called, answered time.Duration, o outcome, err error) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if err != nil {
		h.failures = append(h.failures, fmt.Errorf("%s: %w", c, err))
	}
	if o.unknown {
		answered = math.MaxInt64 // the call may take effect at any later time
	}
	h.calls = append(h.calls, porcupine.Operation{ClientId: caller, Input: c, Call: int64(called), Output: o, Return: int64(answered)})
}
