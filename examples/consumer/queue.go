package main

import (
	"fmt"
	"math/rand/v2"
	"sync"
)

// message is a delivery of an order.
type message struct {
	id    string
	order order
}

// queue delivers each message until a consumer acknowledges the message: at least once,
// sometimes to two consumers. Sometimes the queue loses an acknowledgement.
type queue struct {
	mu           sync.Mutex
	luck         *rand.Rand
	waiting      []message
	open         map[string]bool // not acknowledged yet
	deliveries   int
	acknowledged int
}

func newQueue(messages int, seed uint64) *queue {
	q := &queue{luck: rand.New(rand.NewPCG(seed, 0)), open: make(map[string]bool)} //nolint:gosec // bad luck, no secret
	for n := range messages {
		m := message{id: fmt.Sprintf("message-%d", n), order: order{ID: fmt.Sprintf("o-%d", n), Amount: 100 + n}}
		q.waiting, q.open[m.id] = append(q.waiting, m), true
	}
	return q
}

// receive returns the next delivery, and false when every message is acknowledged. A
// delivered message stays in the queue, behind the others.
func (q *queue) receive() (message, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.waiting) > 0 {
		m := q.waiting[0]
		q.waiting = q.waiting[1:]
		if !q.open[m.id] {
			continue
		}
		q.waiting = append(q.waiting, m)
		if q.luck.IntN(10) == 0 { // to two consumers at once
			q.waiting = append([]message{m}, q.waiting...)
		}
		q.deliveries++
		return m, true
	}
	return message{}, false
}

// acknowledge takes a message off the queue, unless the acknowledgement gets lost.
func (q *queue) acknowledge(m message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.open[m.id] && q.luck.IntN(3) > 0 {
		delete(q.open, m.id)
		q.acknowledged++
	}
}
