package sqlrows

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncekey/oncekey/core/internal/panicked"
)

// proofDeadline bounds a proof, which may begin with a connection to a distant server.
const proofDeadline = 10 * time.Second

// Proof is a check of rights and table that a store makes before its first claim. It has a
// time of its own, because it takes longer than a claim may take.
type Proof struct {
	// Client names the code that Prove runs, whose panic is an error.
	Client string
	Prove  func(ctx context.Context) error

	proven  atomic.Bool
	mutex   sync.Mutex
	running *proving // nil without one
}

// proving is a proof under way.
type proving struct {
	done chan struct{} // closed at the end
	err  error         // read after done
}

// Ready returns nil once the store is proven. It proves until then.
func (p *Proof) Ready(ctx context.Context) error {
	if p.proven.Load() {
		return nil
	}
	return p.Check(ctx)
}

// Doubt lets the next claim prove again.
func (p *Proof) Doubt() { p.proven.Store(false) }

// Check waits for the proof that is under way, or begins one.
func (p *Proof) Check(ctx context.Context) error { return p.begin(ctx).wait(ctx) }

// WaitForFirst waits for the proof that is under way, if the store is not proven. It ignores
// the result.
func (p *Proof) WaitForFirst(ctx context.Context) {
	if p.proven.Load() {
		return
	}
	p.mutex.Lock()
	running := p.running
	p.mutex.Unlock()
	if running != nil {
		_ = running.wait(ctx)
	}
}

func (p *proving) wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return fmt.Errorf("waiting for the check of the table: %w", ctx.Err())
	}
}

// Begin begins a proof, unless one is under way. It ends within ten seconds.
func (p *Proof) Begin(ctx context.Context) { p.begin(ctx) }

func (p *Proof) begin(ctx context.Context) *proving {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.running != nil {
		return p.running
	}
	running := &proving{done: make(chan struct{})}
	p.running = running
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), proofDeadline)
		defer cancel()
		running.err = panicked.Call(p.Client, func() error { return p.Prove(ctx) })
		p.proven.Store(running.err == nil)
		p.mutex.Lock()
		p.running = nil
		p.mutex.Unlock()
		close(running.done)
	}()
	return running
}
