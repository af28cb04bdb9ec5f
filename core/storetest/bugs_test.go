package storetest

import "slices"

// bug is a way to break the contract. The zero bug breaks no rule.
type bug int

const (
	none bug = iota
	countsFromZero
	countsToTwo
	ownFinishedReclaimed
	releaseDoesNothing
	releaseOnlyInTime
	releaseOfReleased
	releasedKeepsExpiry
	extendDoesNothing
	extendOnlyWhatIsKnown
	extendLosesHolder
	acquireNotAtomic
	takeOverNotAtomic
	reclaimNotAtomic
	completeNotAtomic
	takeOverTooEarly
	takeOverOfOtherRequest
	takeOverUnasked
	takeOverUncounted
	takeOverUntold
	ownClaimNotFound
	ownClaimNotRenewed
	ownTakeOverUntold
	leaseOfTheAsker
	leaseLeftOfTheRecord
	contentionIsAnError
	completeWithoutToken
	completeOnlyInTime
	completeOnlyWhatIsKnown
	completeNotRepeatable
	completeOverwrites
	bodyRetained
	headerRetained
	headerSorted
	emptyValueDropped
	bodyCutAtNUL
	unreplayableKept
	releaseWithoutToken
	releaseWithoutAttempt
	releaseForgetsAttempt
	releaseCountsAsTakenOver
	releaseOfFinished
	releaseNotRepeatable
	extendWithoutToken
	extendOnlyInTime
	extendAddsUp
	extendOfFinished
	extendKeepsExpiry
	extendByZeroDoesNothing
	extendByZeroReleases
	expiresEarly
	expiresNever
	retainOfTheClaim
	forgetsAbandoned
	contextIgnored
	contextErrorHidden
	oneKeyForAll
	attemptForToken
	tokenForAttempt
	clockOfTheCaller
	bodyMadeText
	refusalIsAnyError
	refusalFinishes
	refusalAbandons
	sketchForgotten
	sketchRetained
	sketchCutAtNUL
	sketchCutShort
	sketchOfTheOneBefore
	sketchOfRunning
	unreplayableUnsketched
	lookUpWithoutSketch
	headerValuesMerged
	fingerprintTrimmed
	lookUpKeepsTime
	lookUpWithoutBody
	lookUpOfReleased
	listOfAllStates
	listWithAnswers
	listLosesRecords
	listSkipsOfOne
	listByNumber
	listOfAnyLength
	forgetDoesNothing
	forgetIgnoresReleased
	forgetWithoutConfirmation
	inspectsAfterTheEnd
	worksAfterTheEnd
	digestForgotten
	digestOfResultForgotten
	digestOfForgottenForgotten
	digestCutShort
	takeOverByFingerprintAlone
	takeOverByDigestAlone
	zeroDigestsMatch
	lookUpWithoutDigest
	listWithoutDigest
	inProgressForEver
	stepsForgotten
	stepsAppended
	stepsNotInRecord
	stepsNotReturnedToTakeOver
	stepsNotReturnedToOwnClaim
	extendByZeroForgetsSteps
	takeOverDropsSteps
	ownClaimDropsSteps
	shorterStepsWin
	shorterStepsRefused
	stepsOfLostClaimForgotten
	stepsUnfenced
	stepsKeptAfterComplete
	stepsKeptAfterRelease
	stepsKeptAfterExpiry
	stepsTrimmed
	stepsCutShort
	lookUpWithoutSteps
	listWithSteps
	tombstonesForgotten
	tombstoneClaimed
	tombstoneClaimedByItsHolder
	tombstoneTakenOver
	tombstoneCompleted
	tombstoneReleased
	tombstoneExtended
	tombstoneKeepsResponse
	tombstoneKeepsSketch
	tombstoneKeepsSteps
	tombstoneWithoutStatus
	tombstoneOfAbandonedHasStatus
	tombstoneWithoutFingerprint
	tombstoneTrimsFingerprint
	tombstoneWithoutDigest
	tombstoneOfTheFirstAttempt
	tombstoneLate
	tombstonesForEver
	rememberTooShort
	rememberOfTheClaim
	attemptsCountPastTombstones
	abandonedNotRemembered
	releasedRemembered
	extendForgetsRemember
	lookUpWithoutTombstones
	lookUpOfExpired
	listWithoutTombstones
	listOfExpired
	forgetIgnoresTombstones
	forgetOfTombstoneUntold
	originForgotten
	originOfResultForgotten
	originOfTheFirstAttempt
	originOfLostClaimForgotten
	originCutShort
	originTrimmed
	originOnlyWhole
	tombstoneKeepsOrigin
	tombstoneKeepsTimes
	tombstoneKeepsItsEnd
	runningWithoutTimes
	runningIsFinished
	createdMovesWithExtend
	createdOfTheFirstAttempt
	createdByFinish
	expiresStaysWithExtend
	expiresWithTheClaim
	finishedForgotten
	finishedAtTheEnd
	ageIgnored
	lookUpWithoutOrigin
	lookUpWithoutTimes
	listWithoutOrigins
	listWithoutTimes
)

// brokenStore is a bug and the case that must find it; others may.
type brokenStore struct {
	name string
	bug  bug
	find string
}

func brokenStores() []brokenStore {
	return slices.Concat(generalBugs(), stepBugs(), releasedBugs(), requestBugs(), rememberBugs(), originBugs(), decideBugs(), refusedBugs())
}

func generalBugs() []brokenStore {
	return []brokenStore{
		{"attempts count from zero", countsFromZero, "first claim"},
		{"attempts count to two", countsToTwo, "take over again and again"},
		{"a finished key is claimed by its own token", ownFinishedReclaimed, "same token after completion"},
		{"a repeated Acquire never finds its own claim", ownClaimNotFound, "tight deadlines"},
		{"release has no effect", releaseDoesNothing, "release"},
		{"release insists on the lease", releaseOnlyInTime, "release after the lease ran out"},
		{"release of a released key", releaseOfReleased, "release of a later attempt again"},
		{"a released attempt expires with its claim", releasedKeepsExpiry, "a released attempt number is remembered"},
		{"extend has no effect", extendDoesNothing, "extend"},
		{"extend insists on the record", extendOnlyWhatIsKnown, "extend a claim that the store lost"},
		{"extend loses the holder", extendLosesHolder, "complete and release after extend"},
		{"acquire is not atomic", acquireNotAtomic, "concurrent claims"},
		{"taking over is not atomic", takeOverNotAtomic, "concurrent take-overs"},
		{"acquire is not atomic, at random", acquireNotAtomic, "exclusive holders"},
		{"taking over is not atomic, at random", takeOverNotAtomic, "random histories"},
		{"taking over a released key is not atomic", reclaimNotAtomic, "concurrent claims of a released key"},
		{"taken over before the lease ends", takeOverTooEarly, "no take-over before the lease ends"},
		{"taken over by another request", takeOverOfOtherRequest, "abandoned by another request"},
		{"taken over without TakeOver", takeOverUnasked, "abandoned without TakeOver"},
		{"a take-over keeps the attempt number", takeOverUncounted, "take over an abandoned key"},
		{"a take-over does not say so", takeOverUntold, "take over an abandoned key"},
		{"a repeated Acquire does not find its own claim", ownClaimNotFound, "same token again"},
		{"a repeated Acquire returns a lapsed lease", ownClaimNotRenewed, "same token again after its lease ran out"},
		{"a repeated take-over does not say so", ownTakeOverUntold, "same token again after taking over"},
		{"the later caller's TTL decides", leaseOfTheAsker, "a lease lasts as its holder asked"},
		{"LeaseLeft is the record's time left", leaseLeftOfTheRecord, "second claim"},
		{"contention is an error", contentionIsAnError, "second claim"},
		{"complete ignores the token", completeWithoutToken, "complete too late"},
		{"complete is not atomic", completeNotAtomic, "concurrent completions"},
		{"complete ignores the token, at random", completeWithoutToken, "random histories"},
		{"complete insists on the lease", completeOnlyInTime, "complete after the lease ran out"},
		{"complete insists on the record", completeOnlyWhatIsKnown, "complete a claim that the store lost"},
		{"complete cannot be repeated", completeNotRepeatable, "complete again"},
		{"complete overwrites", completeOverwrites, "complete again"},
		{"the body is retained", bodyRetained, "arguments are copied"},
		{"the header is retained", headerRetained, "arguments are copied"},
		{"the header is sorted", headerSorted, "replay"},
		{"empty header values are dropped", emptyValueDropped, "replay"},
		{"the body ends at a NUL", bodyCutAtNUL, "replay"},
		{"an unreplayable body is kept", unreplayableKept, "unreplayable"},
		{"release ignores the token", releaseWithoutToken, "release too late"},
		{"release ignores the attempt number", releaseWithoutAttempt, "release of a claim that took over unknown to its holder"},
		{"release forgets the attempt number", releaseForgetsAttempt, "release of a later attempt"},
		{"a released key counts as taken over", releaseCountsAsTakenOver, "release of a later attempt"},
		{"a finished record can be released", releaseOfFinished, "release after completion"},
		{"release cannot be repeated", releaseNotRepeatable, "release again"},
		{"extend ignores the token", extendWithoutToken, "extend too late"},
		{"extend insists on the lease", extendOnlyInTime, "extend after the lease ran out"},
		{"extend adds to what is left", extendAddsUp, "extend by less"},
		{"a finished record can be extended", extendOfFinished, "extend after completion"},
		{"extend by zero has no effect", extendByZeroDoesNothing, "extend by zero"},
		{"extend by zero releases a lost claim", extendByZeroReleases, "extend by zero a claim that the store lost"},
		{"extend leaves the record to expire", extendKeepsExpiry, "a renewed claim is remembered"},
		{"records expire early", expiresEarly, "a finished record expires"},
		{"records never expire", expiresNever, "a finished record expires"},
		{"records never expire", expiresNever, "a record that ends with its lease"},
		{"a response is kept for the claim's Retain", retainOfTheClaim, "a result is kept for its own Retain"},
		{"abandoned records are forgotten", forgetsAbandoned, "an abandoned record is remembered"},
		{"the context is ignored", contextIgnored, "ended context"},
		{"the context's error is hidden", contextErrorHidden, "passed deadline"},
		{"all keys are one", oneKeyForAll, "independent keys"},
		{"the attempt number is the token", attemptForToken, "another token"},
		{"the token is the attempt number", tokenForAttempt, "late take-over by the holder's own token"},
		{"a release lets the attempt number fall", releaseForgetsAttempt, "fencing"},
		{"a take-over does not raise the attempt number", takeOverUncounted, "fencing"},
		{"the caller's clock counts", clockOfTheCaller, "callers' clocks"},
		{"bodies are made valid UTF-8", bodyMadeText, "large binary bodies"},
		{"sketches are forgotten", sketchForgotten, "sketch"},
		{"a sketch ends at a NUL", sketchCutAtNUL, "sketch"},
		{"a sketch ends after 255 bytes", sketchCutShort, "sketch"},
		{"a sketch outlives its record", sketchOfTheOneBefore, "sketch"},
		{"a running key shows the sketch of the one before", sketchOfRunning, "sketch"},
		{"an unreplayable result has no sketch", unreplayableUnsketched, "unreplayable"},
		{"the sketch is retained", sketchRetained, "arguments are copied"},
		{"a look-up has no sketch", lookUpWithoutSketch, "look up a finished key"},
		{"header fields are merged", headerValuesMerged, "many values of one header"},
		{"fingerprints lose their last blanks", fingerprintTrimmed, "any text"},
		{"a look-up has no time left", lookUpKeepsTime, "look up a running key"},
		{"a look-up has no body", lookUpWithoutBody, "look up a finished key"},
		{"a look-up finds a released record", lookUpOfReleased, "look up a missing key"},
		{"records of all states are listed", listOfAllStates, "list"},
		{"a list has the responses", listWithAnswers, "list"},
		{"a list loses the last record of a page", listLosesRecords, "list many keys"},
		{"pages have any length", listOfAnyLength, "list many keys"},
		{"a page of one has none", listSkipsOfOne, "list one by one"},
		{"a cursor is a number of records", listByNumber, "list while keys come and go"},
		{"a list takes any limit", listOfAnyLength, "list with invalid arguments"},
		{"forget has no effect", forgetDoesNothing, "forget"},
		{"forget leaves a released key", forgetIgnoresReleased, "forget a released key"},
		{"forget does not require RerunIsSafe", forgetWithoutConfirmation, "forget without RerunIsSafe"},
		{"inspecting ignores the context", inspectsAfterTheEnd, "inspect with an ended context"},
		{"a call works after its context has ended", worksAfterTheEnd, "ended context in a store that never waits"},
		{"an ended context goes unnoticed", contextIgnored, "ended context in a store that never waits"},
		{"digests are forgotten", digestForgotten, "digest"},
		{"a digest is forgotten when its key is finished", digestOfResultForgotten, "digest"},
		{"a digest loses its last byte", digestCutShort, "digest"},
		{"a digest is lost with the claim", digestOfForgottenForgotten, "digest of a forgotten claim"},
		{"the fingerprint alone decides a take-over", takeOverByFingerprintAlone, "take over by digest"},
		{"the digest alone decides a take-over", takeOverByDigestAlone, "take over by fingerprint"},
		{"two zero digests are equal", zeroDigestsMatch, "no take-over without a digest"},
		{"a look-up has no digest", lookUpWithoutDigest, "look up a running key"},
		{"a look-up of a finished key has no digest", lookUpWithoutDigest, "look up a finished key"},
		{"a list has no digests", listWithoutDigest, "list"},
		{"a key that was found in progress stays so", inProgressForEver, "a duplicate waits for another process"},
		{"a key that was found in progress stays so when its holder dies", inProgressForEver, "a duplicate waits for a process that dies"},
	}
}
