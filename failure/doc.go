// Package failure decides whether a key is kept or released after a run. Handlers
// can override the rule with marks.
//
// A handler that refuses a request before any side effect releases the key:
//
//	if errors.Is(err, ErrDuplicateEmail) {
//		failure.MarkRetryable(r.Context(), "email is taken")
//		http.Error(w, "email is taken", http.StatusConflict)
//		return
//	}
//
// A handler marks its point of no return after the side effect. The response is
// then stored, even if the handler fails or panics later:
//
//	if receipt, err = gateway.Charge(ctx, card); err == nil {
//		failure.MarkExecuted(ctx)
//	}
//
// Marks travel in the context: r.Context(), any context derived from it, and
// *gin.Context itself. The engine reads the marks once, when it settles the
// response. A later mark, or one outside a guarded route, has no effect and
// returns false.
package failure
