// Package reconcile tests core.Engine.Reconcile with processes and every store. A process
// is killed at each point between the claim of a key, the charge at a provider and the
// record, and its client never comes back. Two other processes reconcile the keys.
package reconcile
