"""Files a page can fetch: the whole log of a run. Mounted routes get no protection from Gradio, so each checks for itself."""

import asyncio

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import StreamingResponse

from backend.errors import LaunchError, PanelError
from backend.panel import Panel
from backend.viewer import Role, require
from ui.visitor import viewer_of


def router(panel: Panel) -> APIRouter:
    """The routes, to be mounted before Gradio's page."""
    routes = APIRouter()

    @routes.get("/engines/{engine_id}/log")
    async def run_log(request: Request, engine_id: str, run: int | None = None) -> StreamingResponse:
        viewer = viewer_of(request.cookies)
        if viewer is None:
            raise HTTPException(status_code=403, detail="Open the panel's page first.")
        try:
            require(viewer, Role.MEMBER)
            number = run if run is not None else _current_run(panel, engine_id)
            chunks = await asyncio.to_thread(panel.fleet.run_log, engine_id, number)
        except PanelError as err:
            raise HTTPException(status_code=404, detail=str(err)) from err
        name = f"engine-{engine_id}-run-{number}.log"
        headers = {"content-disposition": f'attachment; filename="{name}"', "x-content-type-options": "nosniff"}
        return StreamingResponse(chunks, media_type="text/plain; charset=utf-8", headers=headers)

    return routes


def _current_run(panel: Panel, engine_id: str) -> int:
    engine = panel.fleet.engines.get(engine_id)
    if engine is None or engine.status.run is None:
        raise LaunchError(f"Engine {engine_id} has no run.")
    return engine.status.run
