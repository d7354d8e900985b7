"""Uses the generated client against a running service: python-client.py URL EMAIL PASSWORD."""

import json
import sys

import httpx
from sluice_client import AuthenticatedClient, Client
from sluice_client.api.auth import post_auth_login
from sluice_client.api.pipelines import get_pipelines, get_pipelines_by_id, post_pipelines, put_pipelines_by_id
from sluice_client.api.runs import (
    get_pipelines_runs_by_run_id,
    get_pipelines_runs_by_run_id_logs_stream,
    get_pipelines_runs_by_run_id_output,
    get_runs,
    post_pipelines_by_id_run,
)
from sluice_client.models import (
    CreatePipeline,
    DummySource,
    DummySourceSettings,
    DummySourceStream,
    Error,
    FileDestination,
    Login,
    PipelineConfig,
    RunStatus,
    UpdatePipeline,
)

url, email, password = sys.argv[1:]
signed_in = post_auth_login.sync(client=Client(base_url=url), body=Login(email=email, password=password))
client = AuthenticatedClient(base_url=url, token=signed_in.access_token, timeout=httpx.Timeout(60))

source = DummySource(
    name='dummy', stream=DummySourceStream.PLANTS, config=DummySourceSettings(records=2)
)
config = PipelineConfig(source=source, destination=FileDestination(name='file'))
made = post_pipelines.sync(client=client, body=CreatePipeline(name='plants', config=config))
assert made.name == 'plants', made

run = post_pipelines_by_id_run.sync(made.id, client=client)
assert run.status == RunStatus.PENDING, run
get_pipelines_runs_by_run_id_logs_stream.sync_detailed(run.id, client=client)
finished = get_pipelines_runs_by_run_id.sync(run.id, client=client)
assert (finished.status, finished.records_written) == (RunStatus.SUCCESS, 2), finished
output = get_pipelines_runs_by_run_id_output.sync(run.id, client=client)
records = [json.loads(line) for line in output.payload.read().splitlines()]
assert len(records) == 2, records

pipeline = get_pipelines_by_id.sync(made.id, client=client)
assert isinstance(pipeline.config.source, DummySource), pipeline
assert [item.id for item in get_pipelines.sync(client=client, limit=1)] == [made.id]
pipeline.name = 'renamed'
changed = put_pipelines_by_id.sync(made.id, client=client, body=UpdatePipeline.from_dict(pipeline.to_dict()))
assert changed.name == 'renamed', changed
whole = client.get_httpx_client().put(f'/api/pipelines/{made.id}', json=get_pipelines_by_id.sync(made.id, client=client).to_dict())
assert whole.status_code == 200, whole.text

refused = get_runs.sync(client=client, status='faild')
assert isinstance(refused, Error) and 'status' in refused.detail, refused
print('used')
