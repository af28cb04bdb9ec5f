package explore

// Rule names one promise.
type Rule string

// The rules.
const (
	TwoEffects        Rule = "two-effects"                // a key has at most one effect, unless a run was cut off or released the key
	Unprotected       Rule = "unprotected-without-fault"  // FailOpen runs unprotected only when the store fails
	TwoResponses      Rule = "two-responses"              // clients of a key got two different responses, both confirmed by the store
	UncertainResponse Rule = "two-responses-uncertain"    // the same, one response unconfirmed and after its lease
	DeferredResponse  Rule = "two-responses-deferred"     // the same, one response unconfirmed, but within its lease
	ReplayDiffers     Rule = "replay-differs"             // a replay equals the response of its run
	ReplayOfOther     Rule = "replay-of-other-payload"    // a replay goes only to an equal payload
	NotStored         Rule = "shown-not-stored"           // the store holds the shown response at the end
	WronglyReused     Rule = "key-reused-wrongly"         // 422 only for another payload
	RollingReused     Rule = "key-reused-rolling"         // the same, where pods differ in ExcludeFields
	Unavailable       Rule = "unavailable-without-fault"  // 503 only when the store fails
	WaitNoReplay      Rule = "wait-no-replay"             // a duplicate that waits long enough gets the replay
	NoResponse        Rule = "no-response"                // each request gets a response in time
	KeyBlocked        Rule = "key-blocked"                // no key is blocked at the end
	EffectAfterLease  Rule = "effect-after-lease"         // a handler's context ends with its lease
	EffectBeside      Rule = "effect-beside-other-holder" // the same, if another attempt holds the key
	LeaseNotRenewed   Rule = "abandoned-without-fault"    // a lease is renewed while the store is reachable
	DecisionEvents    Rule = "decision-events"            // each request has one decision event
	SettlementEvents  Rule = "settlement-events"          // each run has one settlement event
	ShutdownLate      Rule = "shutdown-late"              // Shutdown returns when its context ends, or before, with the last work
	ShutdownFails     Rule = "shutdown-fails"             // Shutdown returns no error when no work is left
	CutShort          Rule = "cut-short"                  // MaxRun counts from the claim
	CallCutOff        Rule = "call-cut-off"               // a call at the store gets the whole StoreTimeout, and its own context
	OwnClaim          Rule = "own-claim-in-the-way"       // a request is not blocked by its own claim
	ClaimKept         Rule = "claim-not-given-back"       // a claim without a handler is given back
	LateRenewal       Rule = "renewal-beside-release"     // no Extend reaches the store during or after the Release or the Abandon
	GaveUp            Rule = "gave-up-renewing"           // the engine tries to renew a lease until the lease ends
	ReleasedRunning   Rule = "released-while-running"     // the key of a running handler is not released
	UnconfirmedShown  Rule = "unconfirmed-shown"          // a response after its lease was confirmed by the store
	WronglyKept       Rule = "kept-wrongly"               // a response is stored only if the marks, the status and the lists say so
	WronglyReleased   Rule = "released-wrongly"           // a key is released only if the marks, the status and the lists say so
	TransactionOpen   Rule = "transaction-left-open"      // a transaction ends in Commit or Rollback
	RespondsFirst     Rule = "responds-before-record"     // a stored response leaves after the engine asked the store to keep the response
	StaleReplay       Rule = "replay-expired"             // a response is replayed for its TTL
	StoppedByClient   Rule = "stopped-by-client"          // the client's disconnect does not reach the handler
	ToldLate          Rule = "told-late"                  // a waiting handler's context ends with its lease, or a second later after a suspension
	MaxRunIgnored     Rule = "max-run-ignored"            // a handler's context ends at MaxRun
	TakenOver         Rule = "taken-over-though-refused"  // OnAbandoned=Refuse allows no take-over
	AbandonedErased   Rule = "abandoned-erased"           // a claim that took a key over without a handler leaves the key abandoned
	RecoverSkipped    Rule = "recover-skipped"            // OnAbandoned=Recover calls the RecoverFunc before a second run
	StartsLate        Rule = "starts-after-lease"         // a handler does not start under a lease that may have ended
	TwoAtOnce         Rule = "two-at-once"                // one process runs one handler per key, even if the store grants two leases
	WorkAfterShutdown Rule = "work-after-shutdown"        // no work continues after a successful Shutdown, and none begins after its start
	Stuck             Rule = "stuck"                      // no goroutine is left
	UnprotectedBeside Rule = "unprotected-beside"         // FailOpen does not apply if another handler of the key may run or have run
	RollbackHidden    Rule = "rollback-hidden"            // the client learns that the database refused a commit
	PanicEscapes      Rule = "panic-escapes"              // only panics of handlers, Scope and RecoverFunc reach the server
	PanicUnreported   Rule = "panic-unreported"           // an event reports the panic of a callback
	WronglyAbandoned  Rule = "abandoned-wrongly"          // a key is left abandoned only if the marks, the status and the lists say so
	TakenReleased     Rule = "taken-over-released"        // a run that took a key over releases the key only if the RecoverFunc found no effect
	UncertainBlocks   Rule = "uncertain-blocks"           // after an uncertain outcome, the next request is decided at once
	OutcomeForgotten  Rule = "outcome-forgotten"          // after an uncertain outcome, Refuse responds with outcome_unknown, and another payload gets 422
	ForgottenEarly    Rule = "forgotten-early"            // a key is new again only after TTL and Remember
	ExpiredWrongly    Rule = "expired-wrongly"            // key_expired only after the TTL of a stored response
	UnknownWrongly    Rule = "unknown-wrongly"            // outcome_unknown only if an attempt stored no response
	StepRepeated      Rule = "step-repeated"              // a recorded step is not repeated by a later attempt
	StepDiffers       Rule = "step-differs"               // all attempts get the same result of a step
	RefusalRepeated   Rule = "refused-response-repeated"  // a response that the store refuses for good is sent once
	RefusalForgotten  Rule = "refused-response-forgotten" // after it the next request gets not_replayable
	StepTooLate       Rule = "step-after-context"         // no step begins after the end of its context
	StepTwice         Rule = "step-twice"                 // one run calls a step of one name once
	StepSettled       Rule = "step-after-settlement"      // no step begins or returns its result after the settlement of its run
	StepUnrecorded    Rule = "step-unrecorded"            // a step returns its result after the store has confirmed the result
	StepsUnread       Rule = "steps-unread"               // no handler runs without the steps of earlier attempts
	StepNotTold       Rule = "recover-told-wrong-step"    // Abandoned.Step names a step that was cut off, if there is one
	ClaimRepeated     Rule = "lasting-error-repeated"     // a claim that fails for good is not tried again
	UnsettledMany     Rule = "unsettled-beyond-bound"     // no handler starts beside WithMaxUnsettled responses that wait for the store
	AgeWrong          Rule = "age-wrong"                  // a call says how old its claim is
	SettlesLate       Rule = "settles-after-budget"       // no settlement is tried after the settle budget
	HandBesideRun     Rule = "changed-by-hand-beside-run" // an operator changes no key whose handler runs, or whose response waits for the store
	HandOfOther       Rule = "changed-by-hand-unseen"     // an operator changes only the attempt that the operator has seen
	AskedOther        Rule = "asked-about-other"          // a reconciler asks about the attempt that it has taken over
	AskedEarly        Rule = "asked-too-early"            // a reconciler asks after After and Backoff, and not after MaxAttempts
	FindOutlives      Rule = "find-outlives-its-timeout"  // a FindFunc's context ends at FindTimeout
	FindingIgnored    Rule = "finding-ignored"            // the answer to a question is carried out, and no other change is made
	ReconciledRuns    Rule = "reconciled-runs-again"      // a key that a reconciler has settled as happened never runs again
	ReconcilerEvents  Rule = "reconciler-events"          // the events of a reconciler say how its questions ended, and none that a handler runs
	ReconcileLate     Rule = "reconcile-late"             // Reconcile ends with its context and its engine
	LimitIgnored      Rule = "limit-ignored"              // a first attempt runs only after the store has admitted it, and no more at a time than the limit
	LimitAsked        Rule = "limit-asked-wrongly"        // nothing but the first attempt of a key asks for a place, or keeps it
	LimitedWrongly    Rule = "scope-limited-wrongly"      // scope_limited if and only if the store refuses the key, which is released before
	PlaceWrong        Rule = "place-held-wrongly"         // a key holds its place until it is settled, and no longer
	BrokenProblem     Rule = "broken-problem"             // no client gets the half response of a problem.Writer that panicked
)
