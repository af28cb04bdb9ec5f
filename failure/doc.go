// Package failure decides what a failed run means for its idempotency key, and
// lets a handler say what only it can know.
//
// A handler that refuses a request before anything happened frees the key:
//
//	if errors.Is(err, ErrDuplicateEmail) {
//		failure.MarkRetryable(r.Context(), "email is taken")
//		http.Error(w, "email is taken", http.StatusConflict)
//		return
//	}
//
// A handler that has passed its point of no return says so, and the answer is
// kept whatever comes after, a panic included:
//
//	receipt, err := gateway.Charge(ctx, card)
//	failure.MarkExecuted(ctx)
//
// Marks travel in the context: r.Context(), any context derived from it, and
// *gin.Context itself. They are read once, when the answer is settled; a mark
// that comes too late, or outside a guarded route, does nothing and returns
// false.
//
// The package knows nothing of HTTP servers or stores: package core asks
// Classify and acts on the answer.
package failure
