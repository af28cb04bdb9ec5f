package main

import (
	"slices"
	"sync"
)

// maxCharges bounds the charges that the bank keeps for one shop.
const maxCharges = 100

// charge is one line of the ledger.
type charge struct {
	Number  int    `json:"number"`
	Order   string `json:"order"`
	Amount  int64  `json:"amount"` // cents
	Pod     string `json:"pod"`
	Attempt uint64 `json:"attempt,omitempty"` // of the key; zero without a key

	intent string
}

// bank is the payment provider. Like real providers, the bank takes an idempotency key.
// The pods derive the key from the browser's key.
type bank struct {
	mu      sync.Mutex
	total   int
	charges []charge
}

// charge charges the card, unless the bank knows the intent already. An empty intent is
// always new.
func (b *bank) charge(intent string, c charge) (booked charge, fresh bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := slices.IndexFunc(b.charges, func(c charge) bool { return intent != "" && c.intent == intent })
	if known >= 0 {
		return b.charges[known], false
	}
	if len(b.charges) == maxCharges {
		b.charges = slices.Delete(b.charges, 0, 1)
	}
	b.total++
	c.Number, c.intent = b.total, intent
	b.charges = append(b.charges, c)
	return c, true
}

// statement returns the number of charges, and the newest of them.
func (b *bank) statement() (total int, newest []charge) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total, append([]charge{}, b.charges...)
}
