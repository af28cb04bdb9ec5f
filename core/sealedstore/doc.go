// Package sealedstore encrypts the responses that another store keeps.
//
//	sealed := sealedstore.New(redisstore.New(rdb), primitive) // primitive is a tink.AEAD
//	engine, err := core.New(sealed, core.ScopeBy(userID))
//
// Header, Body and Sketch of a finished record and Steps of a running one are encrypted
// and authenticated. The storage key, state, status, attempt, fingerprint and digest stay
// plain, because the store below decides by them. So do the origin and the times, for
// operators, and the length of a response and of steps, to a few bytes. An Expired record
// has nothing to encrypt.
//
// # What a changed record becomes
//
// The associated data is a hash of the storage key, state, status, fingerprint and
// digest. A record in which one of them was changed, or that has the sealed bytes of
// another record, cannot be opened. Acquire and Lookup then return an error that wraps
// [storage.ErrCorruptRecord]: the engine responds with 503 and runs nothing. So does a record
// whose encryption key is gone, and a plain record unless [ReadPlain] is given. A writer of the
// store can still remove records, let them expire, claim keys, and end a key without a
// response: an Unreplayable record without a sketch is plain. An operator settles an
// abandoned key without the key of the seal, and Redis may evict a response.
//
// Steps are bound to the storage key, and to the fingerprint or the digest of their
// request, as take-overs are. Plain steps are a corrupt record too, unless [ReadPlain] is
// given.
//
// # Now or never
//
// An AEAD that calls a key service (KMS) fails in two ways. "Never": this is no
// ciphertext of its keys. "Not now": the service is unreachable. An error counts as "not
// now" when it wraps [ErrUnavailable], [context.Canceled] or
// [context.DeadlineExceeded], or is a [net.Error], or when the call had not returned at
// the deadline or panicked. Acquire then returns [storage.ErrUnreadable] instead of
// [storage.ErrCorruptRecord]. The client gets 503 with Retry-After in both cases, and no
// handler runs. An AEAD whose outages look different should wrap them:
//
//	return nil, fmt.Errorf("%w: %w", sealedstore.ErrUnavailable, err)
//
// A Complete whose AEAD fails, in any way, stores nothing and returns an error. The
// engine repeats it as it does for a store that is unreachable. A Commit is rolled back.
// An Extend with steps, as Complete, stores nothing.
//
// An AEAD has no context, so each of its calls has a goroutine of its own, which ends
// when the AEAD returns. A caller waits no longer than its context. At most [MaxCalls]
// goroutines run at a time.
//
// # Other processes
//
// A process without the seal reads a sealed response as a corrupt record and responds with
// 503. It never replays ciphertext. It takes no key over whose steps are sealed. A record
// without a response and without steps (in progress, unreplayable, or expired) it reads as
// ever.
//
// # What it does not do
//
// It does not hide how long a response is, nor which requests are equal: fingerprint,
// digest and storage key are plain SHA-256. It does not keep an old record from being put
// back in the place of a newer one of the same key, status and request.
package sealedstore
