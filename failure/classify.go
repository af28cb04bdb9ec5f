package failure

import "net/http"

// Class decides a key's fate after its handler ran. The zero Class is ClassCache.
type Class uint8

// ClassDeleteKey and ClassRetryable both release the key. They differ in the event
// that the engine reports: a failed run, or a request to try again.
const (
	// ClassCache stores the response and replays it to every retry.
	ClassCache Class = iota
	// ClassDeleteKey releases the key because the run failed.
	ClassDeleteKey
	// ClassRetryable releases the key because the run had no side effect yet.
	ClassRetryable
	// ClassUncertain leaves the key abandoned, as a crash does: the side effect may
	// or may not have happened. The policy's OnAbandoned decides about the next
	// request.
	ClassUncertain
)

// String returns cache, delete_key, retryable or uncertain.
func (c Class) String() string {
	switch c {
	case ClassDeleteKey:
		return "delete_key"
	case ClassRetryable:
		return "retryable"
	case ClassUncertain:
		return "uncertain"
	default:
		return "cache"
	}
}

// Outcome is how a run ended.
type Outcome struct {
	// Status is the HTTP status that the handler wrote, or zero without a response.
	Status int
	// Err ended the run in place of a response: the cause of the handler's
	// context, or the error that a function returned. Nil when there is none.
	Err error
	// Panicked reports that the run ended in a panic (including
	// http.ErrAbortHandler) or in runtime.Goexit.
	Panicked bool
	// ContextEnded reports that the handler's context ended before the handler had a
	// result: the run lost its lease, or passed MaxRun or a deadline of middleware.
	ContextEnded bool
	// Retryable, Executed and Uncertain are the handler's marks.
	Retryable bool
	Executed  bool
	Uncertain bool
}

// Classify is the default rule. Policy.Classifier replaces it for one route.
//
//	2xx, 3xx                                              ClassCache
//	4xx                                                   ClassCache, except
//	401, 407, 408, 425, 429                               ClassRetryable
//	5xx, a panic, no response because the context ended   ClassDeleteKey
//	MarkRetryable, or an error wrapped by Retryable       ClassRetryable
//	MarkUncertain, or an error wrapped by Uncertain       ClassUncertain
//	an error wrapped by Permanent                         ClassCache
//	any outcome after MarkExecuted                        ClassCache
//
// Of several marks the safest wins: executed, then uncertain, then retryable.
//
// The five retryable statuses mean "not now" and not "no" in their definitions:
// RFC 9110 (401, 407, 408), RFC 8470 (425) and RFC 6585 (429).
func Classify(o Outcome) Class {
	switch {
	case o.Executed:
		return ClassCache
	case o.Uncertain, IsUncertain(o.Err):
		return ClassUncertain
	case o.Retryable, IsRetryable(o.Err):
		return ClassRetryable
	case o.Panicked, o.Status >= http.StatusInternalServerError, o.Status == 0 && o.Err != nil && !IsPermanent(o.Err):
		return ClassDeleteKey
	}
	switch o.Status {
	case http.StatusUnauthorized, http.StatusProxyAuthRequired, http.StatusRequestTimeout,
		http.StatusTooEarly, http.StatusTooManyRequests:
		return ClassRetryable
	default:
		return ClassCache
	}
}

// OnlySuccess is a Classifier that stores only 2xx responses. Any other response
// releases the key, and the handler runs again for the retry. The handler's marks and
// the policy's lists decide first, as for every Classifier. An error of a core.Do
// function is stored if Permanent wraps it.
//
//	idem.Policy(policy.Classifier(failure.OnlySuccess))
func OnlySuccess(o Outcome) Class {
	class := Classify(o)
	isSuccess := o.Status/100 == 2 || o.Status == 0 // zero is a 200, as in net/http
	if class == ClassCache && !o.Marked() && !isSuccess && !IsPermanent(o.Err) {
		return ClassDeleteKey
	}
	return class
}

// Marked reports whether the handler has decided by a mark, or by an error that
// carries a mark. Every policy classifies a marked outcome alike.
func (o Outcome) Marked() bool {
	return o.Executed || o.Uncertain || o.Retryable || IsUncertain(o.Err) || IsRetryable(o.Err)
}
