"""Which features the device serves, whether they are there, and how they get there.

`FeatureStatus` as documented:
https://developers.google.com/android/reference/com/google/mlkit/genai/common/FeatureStatus.
The status call throws only for a feature that the device lacks (or has not heard of yet), and only
in the profile's observed mode: https://github.com/googlesamples/mlkit/issues/1062
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing

from aicore_sim.device.clock import Clock
from aicore_sim.device.errors import GenAiCode, GenAiError
from aicore_sim.device.profile import (
    DeviceProfile,
    DownloadProfile,
    Preference,
    ReleaseStage,
    ServedFeature,
)
from aicore_sim.policy.availability_store import AvailabilityState, FeatureStatus
from aicore_sim.policy.download import (
    ByteSource,
    Download,
    DownloadCompleted,
    DownloadFailed,
    DownloadStatus,
    disk_full,
    download_failure,
    no_network,
)
from aicore_sim.policy.download_sources import SimulatedBytes
from aicore_sim.policy.failures import ErrorType, aicore_failure
from aicore_sim.policy.features import REQUESTED_FEATURE_IDS

logger = logging.getLogger(__name__)


class Availability:
    """The features of one device. Belongs to one event loop.

    A selection is a release stage and a preference, as in `ModelConfig`.
    """

    def __init__(
        self,
        profile: DeviceProfile,
        *,
        clock: Clock,
        source: ByteSource | None = None,
        state: AvailabilityState | None = None,
        save: Callable[[AvailabilityState], None] = lambda _: None,
    ) -> None:
        """`source` is simulated by the profile's rule when absent; `state` is that of a first boot
        when absent. `save` is called with every change of what the phone keeps."""
        self._profile = profile
        self._clock = clock
        self._simulated = SimulatedBytes(profile.download, clock=clock)
        self._held = SimulatedBytes(DownloadProfile(progression="manual"), clock=clock)
        self._source = source or self._simulated
        self._save = save
        # Features whose bytes are not on this machine, whatever the phone remembers.
        self._absent: set[int] = set()
        self._downloads: dict[int, tuple[Download, ByteSource]] = {}
        self._state = state or AvailabilityState(first_boot=clock.now())
        self._adopt()

    @property
    def state(self) -> AvailabilityState:
        """What the phone keeps, as a copy."""
        return self._state.model_copy(deep=True)

    def check_status(self, release_stage: ReleaseStage, preference: Preference) -> FeatureStatus:
        """`checkStatus`. Moves a download with progression `polls` on.

        Raises GenAiError 601 or -101 without a usable AICore, and 606 for a feature that the device
        lacks, in the observed mode.
        """
        feature = self._provisioned(release_stage, preference)
        if feature is None:
            self._refuse_as_observed(release_stage, preference)
            return FeatureStatus.UNAVAILABLE
        running = self._downloads.get(feature.feature_id)
        if running is not None:
            download, source = running
            source.polled(download)
        return self.status(feature.feature_id)

    def status(self, feature_id: int) -> FeatureStatus:
        """Status of a served feature, without counting as a status call."""
        if feature_id in self._downloads:
            return FeatureStatus.DOWNLOADING
        status = self._state.features[feature_id]
        if status is FeatureStatus.AVAILABLE and feature_id in self._absent:
            return FeatureStatus.DOWNLOADABLE
        return status

    def require_served(self, release_stage: ReleaseStage, preference: Preference) -> ServedFeature:
        """The feature of the selection, there or not.

        Raises GenAiError 601, -101, 606 in the observed mode, and 8 in the documented one.
        """
        feature = self._provisioned(release_stage, preference)
        if feature is None:
            self._refuse_as_observed(release_stage, preference)
            asked = REQUESTED_FEATURE_IDS[release_stage, preference]
            raise aicore_failure(GenAiCode.NOT_AVAILABLE, f"Feature {asked} is not available.")
        return feature

    def require_available(
        self, release_stage: ReleaseStage, preference: Preference
    ) -> ServedFeature:
        """The feature of the selection, for whatever needs its model. Never starts a download.

        Raises as `require_served`, GenAiError 8 in any state but AVAILABLE, and the error of a
        profile whose inference always fails.
        """
        feature = self.require_served(release_stage, preference)
        status = self.status(feature.feature_id)
        if status is not FeatureStatus.AVAILABLE:
            raise aicore_failure(
                GenAiCode.NOT_AVAILABLE,
                f"Feature {feature.feature_id} is not available: it is {status.name}.",
            )
        broken = self._profile.aicore.inference_error_code
        if broken is not None:
            # The text of https://github.com/android/ai-samples/issues/3.
            raise aicore_failure(
                broken,
                "Required LLM feature not found.",
                error_type=ErrorType.INFERENCE_ERROR,
            )
        return feature

    async def download(
        self, release_stage: ReleaseStage, preference: Preference
    ) -> AsyncGenerator[DownloadStatus, None]:
        """`download`: nothing happens until it is iterated; then it starts a download or joins the
        running one, which goes on when the caller leaves. Every failure is an item, and the last.

        A feature that is there already is Completed at once.
        """
        try:
            feature = self.require_served(release_stage, preference)
            status = self.status(feature.feature_id)
            if status is FeatureStatus.UNAVAILABLE:
                raise aicore_failure(
                    GenAiCode.NOT_AVAILABLE, f"Feature {feature.feature_id} is not available."
                )
        except GenAiError as error:
            yield DownloadFailed(error=error)
            return
        if status is FeatureStatus.AVAILABLE:
            yield DownloadCompleted()
            return
        if status is FeatureStatus.DOWNLOADING:
            download, _ = self._downloads[feature.feature_id]
        else:
            download = self._start(feature, self._source)
        async with aclosing(download.follow()) as items:
            async for item in items:
                yield item

    # What the control service does.

    @property
    def features(self) -> tuple[ServedFeature, ...]:
        """What the device serves."""
        return self._profile.served_features()

    @property
    def progression(self) -> DownloadProfile:
        """How the next simulated downloads move on."""
        return self._simulated.profile

    def running_download(self, feature_id: int) -> Download | None:
        """The download of a feature while it runs."""
        running = self._downloads.get(feature_id)
        return None if running is None else running[0]

    def set_progression(self, profile: DownloadProfile) -> None:
        """How the next simulated downloads move on."""
        self._simulated.profile = profile

    def set_network(self, available: bool) -> None:
        """Without a network running and new downloads fail (type 1, code 0)."""
        self._state.network_available = available
        self._save(self.state)
        if not available:
            self._end_all(no_network())

    def set_disk_full(self, full: bool) -> None:
        """With a full disk running and new downloads fail (501)."""
        self._state.disk_full = full
        self._save(self.state)
        if full:
            self._end_all(disk_full())

    def set_status(self, status: FeatureStatus, *, feature_id: int | None = None) -> None:
        """Put a served feature, or all of them, into a state; running downloads end by it.

        DOWNLOADING starts a download that moves only by hand (`advance_downloads` and so on).
        Raises ValueError for a feature that the device does not serve.
        """
        features = [one for one in self.features if feature_id in (None, one.feature_id)]
        if feature_id is not None and not features:
            served = ", ".join(str(one.feature_id) for one in self.features) or "none"
            raise ValueError(f"this device serves {served}, not {feature_id}")
        for feature in features:
            running = self._downloads.get(feature.feature_id)
            if running is not None and status is FeatureStatus.DOWNLOADING:
                continue
            if running is not None and status is FeatureStatus.AVAILABLE:
                running[0].complete()
            elif running is not None:
                running[0].fail(download_failure(GenAiCode.CANCELLED, "The download was stopped."))
            if status is FeatureStatus.DOWNLOADING:
                self._set(feature.feature_id, FeatureStatus.DOWNLOADABLE)
                self._start(feature, self._held)
            else:
                self._set(feature.feature_id, status)

    def advance_downloads(self, by_bytes: int) -> None:
        """Move running downloads on; they complete when everything is there.

        Raises ValueError when there is none, or when it is a real one.
        """
        if by_bytes <= 0:
            raise ValueError(f"a download cannot advance by {by_bytes!r} bytes")
        for download in self._running(by_hand=True):
            reached = download.downloaded_bytes + by_bytes
            if reached >= download.total_bytes:
                download.complete()
            else:
                download.progress(reached)

    def complete_downloads(self) -> None:
        """Let running downloads succeed. Raises ValueError as `advance_downloads`."""
        for download in self._running(by_hand=True):
            download.complete()

    def fail_downloads(self, error_code: int) -> None:
        """Let running downloads fail. Raises ValueError when there is none."""
        for download in self._running(by_hand=False):
            download.fail(download_failure(error_code, "The download was made to fail."))

    def factory_reset(self) -> None:
        """As on the first boot, which is now."""
        self.restore(None)

    def restore(self, state: AvailabilityState | None) -> None:
        """Go on from a state, or from a first boot. Running downloads end."""
        self._end_all(download_failure(GenAiCode.CANCELLED, "The device was reset."))
        self._state = state or AvailabilityState(first_boot=self._clock.now())
        self._simulated.profile = self._profile.download
        self._adopt()

    async def close(self) -> None:
        """End running downloads as when the device shuts down. Idempotent."""
        self._end_all(download_failure(GenAiCode.CANCELLED, "AICore stops."))
        for source in (self._source, self._simulated, self._held):
            await source.close()

    def _adopt(self) -> None:
        """Bring the state in line with the profile, which may have changed, and the machine."""
        # A clock that ran ahead before a restart must not put the first boot into the future.
        self._state.first_boot = min(self._state.first_boot, self._clock.now())
        initial = FeatureStatus[self._profile.availability.initial]
        features: dict[int, FeatureStatus] = {}
        for feature in self._profile.served_features():
            known = self._state.features.get(feature.feature_id, initial)
            if known is FeatureStatus.DOWNLOADING:
                known = FeatureStatus.DOWNLOADABLE
            features[feature.feature_id] = known
        self._absent = {
            feature.feature_id
            for feature in self._profile.served_features()
            if self._source.present(feature) is False
        }
        self._state.features = features
        self._save(self.state)

    def _provisioned(
        self, release_stage: ReleaseStage, preference: Preference
    ) -> ServedFeature | None:
        match self._profile.aicore.state:
            case "missing":
                raise aicore_failure(GenAiCode.BINDING_FAILURE, "AICore service failed to bind.")
            case "too_old":
                raise aicore_failure(
                    GenAiCode.AICORE_INCOMPATIBLE,
                    "AICore is not installed, or its version is too low.",
                )
            case "installed":
                pass
        configured = self._state.first_boot + self._profile.availability.config_seconds
        if self._clock.now() < configured:
            return None
        return self._profile.feature(release_stage, preference)

    def _refuse_as_observed(self, release_stage: ReleaseStage, preference: Preference) -> None:
        if self._profile.availability.unprovisioned == "observed":
            asked = REQUESTED_FEATURE_IDS[release_stage, preference]
            raise aicore_failure(GenAiCode.FEATURE_NOT_FOUND, f"Feature {asked} is not available.")

    def _start(self, feature: ServedFeature, source: ByteSource) -> Download:
        download = Download(feature, on_end=self._ended)
        self._downloads[feature.feature_id] = (download, source)
        if not self._state.network_available:
            download.start(feature.download_bytes)
            download.fail(no_network())
        elif self._state.disk_full:
            download.start(feature.download_bytes)
            download.fail(disk_full())
        else:
            source.begin(download)
        return download

    def _ended(self, download: Download) -> None:
        feature_id = download.feature.feature_id
        _, source = self._downloads.pop(feature_id)
        source.abandon(download)
        if isinstance(download.end, DownloadFailed):
            error = download.end.error
            logger.warning("feature=%d download failed: %s", feature_id, error.message)
            self._set(feature_id, FeatureStatus.DOWNLOADABLE)
        else:
            logger.info("feature=%d is downloaded", feature_id)
            self._absent.discard(feature_id)
            self._set(feature_id, FeatureStatus.AVAILABLE)

    def _end_all(self, error: GenAiError) -> None:
        for download, _ in list(self._downloads.values()):
            download.fail(error)

    def _running(self, *, by_hand: bool) -> Iterable[Download]:
        running = list(self._downloads.values())
        if not running:
            raise ValueError("no download is running")
        if by_hand and not all(source.controllable for _, source in running):
            raise ValueError("a real download is running; it can only be made to fail")
        return [download for download, _ in running]

    def _set(self, feature_id: int, status: FeatureStatus) -> None:
        self._state.features[feature_id] = status
        self._save(self.state)
