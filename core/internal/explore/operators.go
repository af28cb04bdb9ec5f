package explore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/storage"
)

// Operation is a change of a key by an operator, who looks at the record first.
type Operation struct {
	Pod, Key int
	At       time.Duration // when the operator looks at the record
	Pause    time.Duration // between the look and the change
	Forget   bool          // Inspector.Forget instead of Inspector.Settle
}

// operationKey is the context key of an operation's number.
type operationKey struct{}

// operatorPatience bounds each call of an operator.
const operatorPatience = 5 * time.Second

// operate carries out an operation. The operator knows of each effect until the change.
func (w *world) operate(p *pod, n int) {
	o := &w.plan.Operations[n]
	sleep(o.At + time.Duration(w.hash(p.ID, n, 11)%1_000_000) - w.since())
	hands, err := p.engine.Inspector()
	if err != nil {
		panic(err)
	}
	ctx := context.WithValue(context.WithValue(context.Background(), operationKey{}, n), requestKey{}, -1)
	ctx, cancel := context.WithTimeout(ctx, o.Pause+2*operatorPatience)
	defer cancel()
	record, err := hands.Lookup(ctx, w.storageKey(o.Key))
	if err != nil || record == nil {
		return
	}
	sleep(o.Pause)
	p.hold(-2-n, 5_000_000)
	if p.isDead() {
		return
	}
	f := Fact{Pod: p.ID, Request: -1, Kind: Operated, N: n, Key: o.Key, Source: -1, Attempt: record.Attempt}
	w.add(f)
	f.Kind, f.Err = Handled, w.change(ctx, hands, o, record.Attempt)
	w.add(f)
}

// change calls the Inspector. The operator says truthfully whether there was an effect.
func (w *world) change(ctx context.Context, hands *core.Inspector, o *Operation, attempt uint64) error {
	by, key := core.ByHand{Operator: "operator", Reason: "a ticket"}, w.storageKey(o.Key)
	if o.Forget {
		_, err := hands.Forget(ctx, key, attempt, storage.RerunIsSafe, by)
		return err
	}
	confirmation := storage.DidNotHappen
	if _, found := w.effectUnder(keyName(o.Key)); found {
		confirmation = storage.Happened
	}
	return hands.Settle(ctx, key, attempt, confirmation, by)
}

// storageKey is the storage key of a key of the plan.
func (w *world) storageKey(key int) string {
	return storage.Key(w.tenant, http.MethodPost, path, keyName(key))
}

var _ storage.Inspector = (*link)(nil)

// Lookup implements storage.Inspector.
func (l *link) Lookup(ctx context.Context, key string) (record *storage.Record, err error) {
	if n, asks := reconcilerOf(ctx); asks {
		return l.lookFor(ctx, n, key)
	}
	err = l.reach(ctx, 0, func(f Fact) {
		if record = l.world.store.lookup(key); record == nil {
			return
		}
		f.Kind, f.Attempt, f.Text = LookedUp, record.Attempt, stateOf(record)
		l.world.add(f)
	})
	return record, err
}

// Settle implements storage.Inspector.
func (l *link) Settle(ctx context.Context, key string, attempt uint64, confirmation storage.Confirmation) error {
	refused := storage.ErrNotAbandoned
	err := l.reach(ctx, 2, func(f Fact) {
		if l.world.store.settle(key, attempt, confirmation == storage.Happened) {
			refused, f.Kind, f.Attempt, f.Text = nil, Changed, attempt, "settled"
			l.world.add(f)
		}
	})
	return errors.Join(err, refused)
}

// Forget implements storage.Inspector.
func (l *link) Forget(ctx context.Context, key string, _ storage.Confirmation) (removed bool, err error) {
	err = l.reach(ctx, 4, func(f Fact) {
		if removed = l.world.store.forget(key); removed {
			f.Kind, f.Text = Changed, "forgotten"
			l.world.add(f)
		}
	})
	return removed, err
}

// reach makes an operator's call over the network. Outages delay or end it.
func (l *link) reach(ctx context.Context, leg int, do func(Fact)) error {
	n, _ := ctx.Value(operationKey{}).(int)
	who := caller{request: -2 - n}
	j := journey{link: l, op: numOps, who: who, n: l.world.operations(n)}
	if err := j.pass(ctx, j.delay(leg)); err != nil {
		return err
	}
	do(Fact{Pod: l.pod.ID, Request: -1, Key: l.world.plan.Operations[n].Key, N: n, Source: -1})
	return j.pass(ctx, j.delay(leg+1))
}

// operations counts the calls of an operation.
func (w *world) operations(n int) int { return w.count(caller{request: -2 - n}, Acquire) }

func stateOf(r *storage.Record) string {
	if r.Abandoned() {
		return "abandoned"
	}
	return r.State.String()
}

// lookup returns the record of a key, or nil.
func (s *store) lookup(key string) *storage.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	r := s.find(key, now)
	if r == nil || r.isForgotten() {
		return nil
	}
	return r.show(now)
}

// isForgotten reports whether only the attempt's number is left of a record.
func (r *record) isForgotten() bool { return r.result.State == 0 }

// settle ends an abandoned key. The decision of an operator begins a new life of the key.
func (s *store) settle(key string, attempt uint64, happened bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	r := s.find(key, now)
	if r == nil || r.result.State != storage.InProgress || now.Before(r.ends) || r.lease.Attempt != attempt {
		return false
	}
	s.lives[key]++
	settled := *r
	settled.lease.Token, settled.lease.Steps = storage.Token{}, "" // the old lease is lost
	settled.result = storage.Result{}
	if happened {
		settled.result = storage.Result{State: storage.Unreplayable, Status: storage.StatusByHand}
	}
	s.records[key] = &settled
	return true
}

// forget removes a record, and begins a new life of the key.
func (s *store) forget(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.find(key, s.now())
	delete(s.records, key)
	s.lives[key]++
	return r != nil && !r.isForgotten()
}

// drawOperations lets operators settle and forget keys.
func drawOperations(d *dice, p *Plan) {
	for range 1 + d.below(3) {
		p.Operations = append(p.Operations, Operation{
			Pod: d.below(len(p.Pods)), Key: p.Requests[d.below(len(p.Requests))].Key,
			At:     d.span(0, pick(d, 3*p.Policy.LockTTL, 4*time.Second, 8*time.Second)),
			Pause:  d.span(0, pick(d, time.Millisecond, 50*time.Millisecond, 2*p.Policy.LockTTL)),
			Forget: d.percent(50),
		})
	}
}

// hand is the history of one operation.
type hand struct {
	begun   *Fact // the attempt that the operator has seen
	found   *Fact // the engine's own look
	changed *Fact // nil: the record is as before
}

// handsOf sorts the facts of operations.
func handsOf(h History) map[int]*hand {
	var hands map[int]*hand
	for _, f := range h.Facts {
		switch o := hands[f.N]; {
		case f.Kind == Operated:
			if hands == nil {
				hands = make(map[int]*hand)
			}
			hands[f.N] = &hand{begun: f}
		case o != nil && f.Kind == LookedUp:
			o.found = f
		case o != nil && f.Kind == Changed:
			o.changed = f
		}
	}
	return hands
}

// operations: an operator changes a key only if no handler of it runs, and only the
// attempt that the operator has seen.
func (j *judge) operations() {
	for n := range j.plan.Operations {
		o := j.hands[n]
		if o == nil || o.changed == nil || j.plan.Policy.Observe {
			continue
		}
		forgets := j.plan.Operations[n].Forget
		if forgets && o.found != nil && o.found.Text == "in_progress" {
			j.report(HandBesideRun, "an operator forgets key %d at %v, and its lease has not ended", o.begun.Key, o.changed.At)
		}
		if r := j.alive(o.begun, o.changed.At); r != nil {
			j.report(HandBesideRun, "an operator changes key %d by p%d at %v, and its run r%d has not ended there", o.begun.Key, o.begun.Pod, o.changed.At, r.id)
		}
		attempt := o.changed.Attempt
		if forgets && o.found != nil {
			attempt = o.found.Attempt
		}
		if attempt != o.begun.Attempt {
			j.report(HandOfOther, "an operator has seen attempt %d of key %d, and changes attempt %d", o.begun.Attempt, o.begun.Key, attempt)
		}
	}
}

// alive returns a run that the process of an operation has from the operation's beginning
// to its change, or nil. A run that learned of its lost lease does not count, as for
// runBeside.
func (j *judge) alive(begun *Fact, changed time.Duration) *run {
	for _, r := range j.order {
		if lost := r.learnedLoss(); lost > 0 && lost <= changed {
			continue
		}
		begins := r.guarded() && r.pod == begun.Pod && r.key == begun.Key && r.started.At < begun.At
		if begins && !j.plan.kills(r.pod) && (r.endedAt == 0 || r.endedAt > changed) {
			return r
		}
	}
	return nil
}

// changedByHand reports whether an operator has changed the key between two times.
func (j *judge) changedByHand(key int, from, until time.Duration) bool {
	for _, o := range j.hands {
		if c := o.changed; c != nil && c.Key == key && c.At >= from && c.At <= until {
			return true
		}
	}
	return false
}

func (o Operation) String() string {
	if o.Forget {
		return fmt.Sprintf("forgets key %d", o.Key)
	}
	return fmt.Sprintf("settles key %d", o.Key)
}
