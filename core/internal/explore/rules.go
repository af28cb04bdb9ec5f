package explore

// Rule names one promise.
type Rule string

// The rules.
const (
	TwoEffects        Rule = "two-effects"                // at most one effect a key, unless a run was cut off or released it
	Unprotected       Rule = "unprotected-without-fault"  // FailOpen runs unprotected only when the store fails
	TwoResponses      Rule = "two-responses"              // two different responses left, both confirmed by the store
	UncertainResponse Rule = "two-responses-uncertain"    // the same, one of them unconfirmed and after its lease (case 37)
	DeferredResponse  Rule = "two-responses-deferred"     // the same, one of them unconfirmed, but within its lease
	ReplayDiffers     Rule = "replay-differs"             // a replay is the response of the run that it comes from
	ReplayOfOther     Rule = "replay-of-other-payload"    // a replay answers the same payload
	NotStored         Rule = "shown-not-stored"           // the store holds another response in the end
	WronglyReused     Rule = "key-reused-wrongly"         // 422 only for another payload
	RollingReused     Rule = "key-reused-rolling"         // the same, where pods differ in ExcludeFields (case 40)
	Unavailable       Rule = "unavailable-without-fault"  // 503 only when the store fails (case 35)
	WaitNoReplay      Rule = "wait-no-replay"             // a duplicate that waits long enough gets the replay (case 35)
	NoResponse        Rule = "no-response"                // each request gets a response in time
	KeyBlocked        Rule = "key-blocked"                // no key is blocked when all is over
	EffectAfterLease  Rule = "effect-after-lease"         // a handler's context ends with its lease (case 36)
	EffectBeside      Rule = "effect-beside-other-holder" // the same, while another attempt holds the key
	LeaseNotRenewed   Rule = "abandoned-without-fault"    // a lease is renewed as long as the store can be reached
	DecisionEvents    Rule = "decision-events"            // one decision event a request
	SettlementEvents  Rule = "settlement-events"          // one settlement a run
	ShutdownLate      Rule = "shutdown-late"              // Shutdown returns when its context ends
	ShutdownFails     Rule = "shutdown-fails"             // and without an error when nothing is left
	CutShort          Rule = "cut-short"                  // MaxRun counts from the handler's start
	CallCutOff        Rule = "call-cut-off"               // a call at the store gets the whole StoreTimeout, and a context of its own
	OwnClaim          Rule = "own-claim-in-the-way"       // a request is not blocked by its own claim
	ClaimKept         Rule = "claim-not-given-back"       // a claim that nothing runs under is released
	LateRenewal       Rule = "renewal-beside-release"     // no Extend reaches the store during or after the Release
	GaveUp            Rule = "gave-up-renewing"           // a lease is lost only if it was tried to renew it until then
	ReleasedRunning   Rule = "released-while-running"     // the key of a running handler is not released
	UnconfirmedShown  Rule = "unconfirmed-shown"          // no response is shown after its lease that the store has not confirmed (case 37)
	WronglyKept       Rule = "kept-wrongly"               // what is stored is what the marks and the status say
	WronglyReleased   Rule = "released-wrongly"           // and so is what is released
	TransactionOpen   Rule = "transaction-left-open"      // a transaction ends in Commit or Rollback
	RespondsFirst     Rule = "responds-before-record"     // a response that is kept leaves after the store was asked to keep it
	StaleReplay       Rule = "replay-expired"             // a response is replayed for its TTL
	StoppedByClient   Rule = "stopped-by-client"          // the client's disconnect does not reach the handler
	ToldLate          Rule = "told-late"                  // a handler that waits is told when its lease ends (case 36), or a second later after a suspension (case 41)
	MaxRunIgnored     Rule = "max-run-ignored"            // a handler's context ends at MaxRun
	TakenOver         Rule = "taken-over-though-refused"  // OnAbandoned=Refuse takes nothing over
	AbandonedErased   Rule = "abandoned-erased"           // a claim that took a key over unused leaves it abandoned
	RecoverSkipped    Rule = "recover-skipped"            // OnAbandoned=Recover asks before a second run
	StartsLate        Rule = "starts-after-lease"         // a handler does not begin under a lease that may have ended
	TwoAtOnce         Rule = "two-at-once"                // one process runs one handler a key, whatever the store says
	WorkAfterShutdown Rule = "work-after-shutdown"        // nothing goes on after a Shutdown that succeeded
	Stuck             Rule = "stuck"                      // no goroutine is left
	UnprotectedBeside Rule = "unprotected-beside"         // FailOpen does not apply where a handler may run or have run
	RollbackHidden    Rule = "rollback-hidden"            // a commit that the database refused is told as such
	PanicEscapes      Rule = "panic-escapes"              // only panics of handlers, Scope and RecoverFunc reach the server (case 39)
	PanicUnreported   Rule = "panic-unreported"           // an event reports the panic of a callback
	BrokenProblem     Rule = "broken-problem"             // half a problem of a problem.Writer that panicked is not sent
)
