// Package handlertest tests that a handler is safe to retry. The kit runs the handler,
// makes it fail at every point where it can fail, retries as a client does, and counts
// the effects.
//
//	func TestPayIsSafeToRetry(t *testing.T) {
//		handlertest.Run(t, func(w *handlertest.World) handlertest.Service {
//			provider := newFakeProvider()                            // outlives a process
//			client := &http.Client{Transport: w.Transport(provider)} // serves it in memory
//			return handlertest.Service{
//				Routes:  func(engine *core.Engine) http.Handler { return routes(engine, client) },
//				Request: handlertest.Request{Path: "/payments", Body: `{"amount":42}`},
//				Effects: provider.Charges,
//			}
//		})
//	}
//
// # Points and faults
//
// A first run without faults finds the points: every call to the store, every outgoing
// call and the response. Each further run has one fault at one of the points, in a new
// [World]. A fault comes before the work of a call, during it (the work is done, and the
// caller does not learn of it) or after it:
//
//   - unreachable, refused: the call fails, and its work is not done. The store then
//     stays unreachable for 5 seconds.
//   - reply lost, reply cut, reply late: the work is done. The reply does not arrive,
//     ends early, or arrives when the context of the request has ended.
//   - panic: the handler panics in the call.
//   - time-out: the call waits until the request's context ends, after 30 seconds.
//   - killed: the process ends in the call. Another engine on the same store serves the
//     retries.
//   - lease lost: the lease ends early, and another process takes the retry to its end.
//     Then the first handler goes on. In a call the kit waits for the handler's
//     context to end, so that this call, or the next one, fails.
//   - client gone: the client closes the connection and retries.
//
// The client sends the same bytes with the same key until it gets a final response, at
// most 30 times, and once more after that. It waits for a response for 5 minutes. Final
// responses are 2xx, 3xx, a stored response, and a 4xx that is not 408, 425, 429 or a 409
// with Retry-After.
//
// # Verdicts
//
// A run is wrong if one of these is true:
//
//   - It has more effects than the run without a fault.
//   - The client got two different final responses, or one that is not stored.
//   - The client was told of a success, or each retry gets a stored 5xx, and the effect
//     has not happened.
//   - The handler responded with a 4xx, and the effect has happened.
//   - The client got no final response.
//
// [Run] reports each with advice, and logs the matrix of all runs.
//
// # Consumers
//
// [Consumer] delivers messages to a function that calls core.Do, with the same faults. A
// client that retries is then a queue that delivers again.
//
// # Limits
//
// Each run is in a testing/synctest bubble, where time is virtual. A real socket does not
// work in a bubble. [World.Transport] therefore serves the provider in memory, and a
// database driver must work in memory too. For other clients, such as gRPC or a queue, put
// a [World.Call] around the call. The store is a memstore. It has transactions where the
// Service has a DB of database/sql: the kit commits the handler's writes and the response
// together, or neither. Transactions of pgstore need a server. The response is captured by a
// httptest.ResponseRecorder, which cannot be hijacked.
//
// The handler must make equal calls in equal runs, and at most 200. Faults come one at a
// time, and only in the first attempt. A goroutine that waits forever is reported, and
// stays. A mutex that stays locked stops the virtual time: after 2 minutes the kit ends
// the test program, and names the fault.
package handlertest
